"""Stimulus and benches of the NF4 blocks."""
