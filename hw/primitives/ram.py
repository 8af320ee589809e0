"""Memories as their plan has them: the `platform` that Amaranth gives to each `elaborate` is a `MemoryPlan`."""

from __future__ import annotations

from amaranth.hdl import ShapeLike
from amaranth.lib import memory

from ...golden.memories.plan import Device, MemoryPlan, MemoryShape


def ram(platform: object, planned: MemoryShape, shape: ShapeLike | None = None) -> memory.Memory:
    """Make one of the memories that a shape describes, without contents.

    Parameters
    ----------
    platform : MemoryPlan or None
        Plan of the block, as `elaborate` gets it; None: the memory is alone on a device with all kinds.
    planned : MemoryShape
        Its depth and width.
    shape : ShapeLike, optional
        Shape of a word, by default an integer.
    """
    plan = platform if isinstance(platform, MemoryPlan) else MemoryPlan(Device(), (planned,))
    attributes = {"ram_style": plan.kind(planned)}
    return memory.Memory(
        shape=planned.width if shape is None else shape, depth=planned.depth, init=[], attrs=attributes
    )
