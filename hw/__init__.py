"""Amaranth components by area, a file per block, each built from the golden spec of the same name."""
