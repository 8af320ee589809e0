"""RTL of weights of attention and the contexts."""
