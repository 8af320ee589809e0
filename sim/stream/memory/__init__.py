"""Benches and rules of the activation memory and of the sample loader."""
