"""Stimulus and benches of random-number generators."""
