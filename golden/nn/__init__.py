"""A network on an array of multipliers: mapping, integer forward pass, layers, softmax and loss."""
