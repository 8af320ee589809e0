"""Networks from PyTorch modules, exported graphs and ONNX files."""
