"""Benches and rules of adapter training."""
