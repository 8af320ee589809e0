"""Stimulus and benches of adapter training."""
