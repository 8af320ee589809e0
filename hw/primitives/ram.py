"""Memories placed by a memory plan; the `platform` argument of `elaborate` is a `MemoryPlan`."""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import memory

from ...golden.memories.plan import Device, MemoryPlan, MemoryShape


def ram(platform: object, planned: MemoryShape, shape: ShapeLike | None = None) -> memory.Memory:
    """Memory of a planned depth and width, without initial contents.

    Parameters
    ----------
    platform : MemoryPlan or None
        Plan of the block, as passed to `elaborate`; None if the memory has a device with all RAM types to itself.
    shape : ShapeLike, optional
        Shape of a word, by default an unsigned integer.
    """
    plan = platform if isinstance(platform, MemoryPlan) else MemoryPlan(Device(), (planned,))
    attributes = {"ram_style": plan.kind(planned)}
    return memory.Memory(
        shape=planned.width if shape is None else shape, depth=planned.depth, init=[], attrs=attributes
    )
