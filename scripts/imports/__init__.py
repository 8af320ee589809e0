"""Reports of `fabtune import` on a model: a network of layers, or a transformer."""
