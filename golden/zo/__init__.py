"""Zeroth-order training: perturbation lanes and tile, sparse addition, and the weight path."""
