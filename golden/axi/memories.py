"""Memories of AXI managers: FIFOs of beats and bursts, and the cache RAM."""

from __future__ import annotations

from dataclasses import replace

from ..memories.plan import MemoryShape
from .axi_read import AxiReadSpec
from .axi_write import AxiWriteSpec
from .bus import BEAT


def cache_memory(beats: int) -> MemoryShape:
    """Cache RAM of so many beats."""
    return MemoryShape("cache", beats, 8 * BEAT, ultra=True)


def port_memories(reader: AxiReadSpec, writer: AxiWriteSpec, ports: int) -> tuple[MemoryShape, ...]:
    """FIFOs of the managers of so many ports."""
    return tuple(replace(one, count=ports) for one in (*reader.memories, *writer.memories))
