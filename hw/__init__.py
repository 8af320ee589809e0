"""Amaranth components by area, one file a block, each built from the golden spec of the same name."""
