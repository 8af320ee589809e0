"""Benches and rules of the NF4 blocks."""
