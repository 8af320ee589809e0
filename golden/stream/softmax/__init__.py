"""Models of attention weights and contexts."""
