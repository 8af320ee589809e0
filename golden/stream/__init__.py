"""Transformers, whose weights are streamed: their functions in integers."""
