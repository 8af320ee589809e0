"""Stimulus and benches of AXI blocks."""
