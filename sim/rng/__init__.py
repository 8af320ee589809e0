"""Benches and rules of the random-number generators."""
