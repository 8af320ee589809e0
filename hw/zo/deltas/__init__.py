"""Deltas of all words, and a step's offsets from generated numbers."""
