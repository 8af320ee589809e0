"""Benches and rules of the network blocks."""
