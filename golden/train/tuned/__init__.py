"""Tuned networks: the file of a run, and the way back to PyTorch, ONNX and integers."""
