"""Zeroth-order weight perturbation in RTL."""
