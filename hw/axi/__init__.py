"""AXI4 managers, AXI4-Lite registers, arbiters and buffers in RTL."""
