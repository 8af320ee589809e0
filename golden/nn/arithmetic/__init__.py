"""Integers of a network's layers: products, averages, forward pass, loss."""
