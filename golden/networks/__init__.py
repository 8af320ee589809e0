"""Networks: their description, presets, PyTorch modules and checkpoints."""
