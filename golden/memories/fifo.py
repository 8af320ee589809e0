"""Memories of FIFOs."""

from .plan import MemoryShape

LUT_ENTRIES = 127
"""Most entries of a FIFO in LUT RAM."""


def fifo_memory(name: str, depth: int, width: int) -> MemoryShape:
    """Memory of a FIFO."""
    return MemoryShape(name, depth, width, lut_rows=LUT_ENTRIES)
