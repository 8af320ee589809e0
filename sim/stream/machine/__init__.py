"""Benches and rules of the streaming core's program execution."""
