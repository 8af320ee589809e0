"""Memories of an emitted design, and how many blocks of RAM a device needs for them at least."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
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
    mode : str
        What a port reads at the address that is written in the same cycle: ``read first``, the word before, or ``write
        first``; ``read only`` of a ROM; ``asynchronous`` where the read has no clock; ``latch with reset`` where that
        is so in a block RAM, and the register behind it, which has a reset, is its latch. Several with a comma between.
    """

    name: str
    width: int
    depth: int
    style: str
    reads: int
    mode: str = ""

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
        cells = defaultdict(list)
        for port in re.findall(r"cell \$memrd_v2 (?:.*\n)*?\s+end\n", module):
            settings = dict(re.findall(r"parameter \\(\w+) (\S+)", port))
            cells[settings["MEMID"].strip('"').lstrip("\\")].append(settings)
        declared = re.findall(r'(?:attribute \\ram_style "(\w+)"\n\s*)?memory width (\d+) size (\d+) \\(\S+)', module)
        for style, width, depth, name in declared:
            mode = ", ".join(dict.fromkeys(_mode(one, style) for one in cells[name]))
            found.append(Memory(f"{path}.{name}", int(width), int(depth), style, len(cells[name]), mode))
    return found


def _mode(settings: Mapping[str, str], style: str) -> str:
    """Name what a port reads, by the parameters of its cell: one bit of the mask for each port that writes."""
    writers, _, transparent = settings["TRANSPARENCY_MASK"].rpartition("'")
    if settings["CLK_ENABLE"] in ("0", "1'0"):
        return "latch with reset" if style in ("block", "ultra") else "asynchronous"
    if writers == "0":
        return "read only"
    return "write first" if "1" in transparent else "read first"


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
