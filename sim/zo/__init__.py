"""Stimulus and benches of zeroth-order blocks."""
