"""Bench of `depthwise`: parameters, one sample, several at once; other parameters, several samples."""

from .layer_block import scenario

__all__ = ["scenario"]
