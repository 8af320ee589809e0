"""Networks: descriptions, presets, PyTorch modules and checkpoints."""
