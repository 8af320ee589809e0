"""AXI4 and AXI4-Lite: bursts, registers, and the register map as data."""
