"""Benches and rules of attention: softmax weights, contexts, and the sequence of their operations."""
