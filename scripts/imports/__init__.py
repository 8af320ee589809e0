"""What `fabtune import` says of a model: of a network of layers, or of a transformer."""
