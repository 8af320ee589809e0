"""Benches and rules of the multiplier array, its stationary operand and its accumulators."""
