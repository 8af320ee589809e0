"""Bench of `conv`, see `layer_block.scenario`."""

from .layer_block import scenario

__all__ = ["scenario"]
