"""Bench of `depthwise`, see `layer_block.scenario`."""

from .layer_block import scenario

__all__ = ["scenario"]
