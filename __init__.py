"""fabtune: FPGA hardware that fine-tunes neural networks, proved bit by bit against a fixed-point model."""

__version__ = "0.1.0"
