"""Rules of primitives used by all blocks."""
