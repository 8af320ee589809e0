"""Benches and rules of the units after the array: norms, activations, rotations, pooling."""
