"""Benches and rules of the zeroth-order blocks."""
