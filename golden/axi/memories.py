"""Memories of AXI managers: FIFOs of beats and bursts, and the cache RAM."""

from __future__ import annotations

from dataclasses import replace

from ..memories.plan import MemoryShape
from .axi_read import AxiReadSpec
from .axi_write import AxiWriteSpec
from .bus import BEAT


def cache_memory(beats: int) -> MemoryShape:
    return MemoryShape("cache", beats, 8 * BEAT, ultra=True)


def port_memories(
    reader: AxiReadSpec, writer: AxiWriteSpec, ports: int, writing: int | None = None
) -> tuple[MemoryShape, ...]:
    """FIFOs of the managers of `ports` ports; `writing` of them, by default all, have a writer."""
    counts = (reader, ports), (writer, ports if writing is None else writing)
    return tuple(replace(shape, count=count) for half, count in counts for shape in half.memories)
