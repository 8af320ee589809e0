"""Stimulus and benches of network blocks."""
