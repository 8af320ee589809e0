"""Benches and rules of the AXI blocks."""
