"""Stimulus and benches of cores."""
