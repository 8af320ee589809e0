"""Memories of an emitted design, and how many blocks of RAM a device needs for them at least."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from ..golden.errors import UserError
from .board import Board

_BLOCK_SHAPES = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Depth and width of half a block RAM, 18 Kib, with a port to read and one to write (UG573)."""
_ULTRA_SHAPE = (4096, 72)
"""Depth and width of an UltraRAM block."""


@dataclass(frozen=True)
class Memory:
    """A memory of a design.

    Parameters
    ----------
    name : str
        Its name, behind those of the modules around it.
    width, depth : int
        Bits of a word, and words.
    style : str
        What the RTL asks for: ``block``, ``ultra``, ``distributed``; empty where synthesis chooses.
    reads : int
        Ports that read. A RAM has one beside the port that writes, so each further one takes a copy.
    """

    name: str
    width: int
    depth: int
    style: str
    reads: int

    @property
    def blocks(self) -> dict[str, float]:
        """Blocks of RAM: ``bram36`` in halves, ``uram``; none where it asks for neither."""
        copies = max(self.reads, 1)
        if self.style == "block":
            halves = min(
                math.ceil(self.width / width) * math.ceil(self.depth / depth) for depth, width in _BLOCK_SHAPES
            )
            return {"bram36": copies * halves / 2}
        if self.style == "ultra":
            depth, width = _ULTRA_SHAPE
            return {"uram": copies * math.ceil(self.width / width) * math.ceil(self.depth / depth)}
        return {}


def memories_of(rtlil: str) -> list[Memory]:
    """List the memories of a design in RTLIL, as `hw.verilog.Emitted` has it, in the order of the text."""
    found = []
    for module in re.split(r"(?m)^module ", rtlil)[1:]:
        path = module.partition("\n")[0].lstrip("\\")
        reads = Counter(re.findall(r'cell \$memrd_v2 \S+\n\s+parameter \\MEMID "\\\\(\S+)"', module))
        declared = re.findall(r'(?:attribute \\ram_style "(\w+)"\n\s*)?memory width (\d+) size (\d+) \\(\S+)', module)
        for style, width, depth, name in declared:
            found.append(Memory(f"{path}.{name}", int(width), int(depth), style, reads[name]))
    return found


def refuse_lack(memories: list[Memory], board: Board) -> None:
    """Refuse a design whose memories need more blocks than a board has.

    Raises
    ------
    UserError
        With both numbers.
    """
    for kind in ("bram36", "uram"):
        needed = sum(memory.blocks.get(kind, 0) for memory in memories)
        if needed > board.resources[kind]:
            raise UserError(
                f"its memories need at least {needed:g} {kind.upper()}, the {board.name} has {board.resources[kind]}: "
                "take a smaller network, fewer columns or a smaller cache"
            )
