"""Gradients of adapters and the classification head, and the update."""
