"""Deltas of all words, and offsets of a step, from the generator's numbers."""
