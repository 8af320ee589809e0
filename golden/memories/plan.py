"""Plan of a block's memories: which kind of RAM each one is on a device, and the blocks that they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from operator import add
from typing import Literal

from .blocks import Blocks, Fit, block_rams, ultra_rams

Kind = Literal["distributed", "block", "ultra"]
"""Values of the attribute ``ram_style``: LUT RAM, block RAM, UltraRAM."""
KIND_NAMES: dict[Kind, str] = {"distributed": "LUT RAM", "block": "block RAM", "ultra": "UltraRAM"}
LUT_ROWS = 64
"""Most rows in LUT RAM, unless a memory says otherwise: those of one RAM64M8."""


@dataclass(frozen=True)
class Device:
    """Blocks of RAM of a device; by default those of the XCK26, which has all kinds.

    Parameters
    ----------
    bram36, uram : int
    """

    bram36: int = 144
    uram: int = 64


@dataclass(frozen=True)
class MemoryShape:
    """Memories of a block that are alike, and of one kind.

    Parameters
    ----------
    name : str
        What they hold; no two of a block have one name.
    depth, width : int
        Words, and bits of a word.
    count : int
        Number of memories.
    reads : int
        Ports that read: each has a copy, but for `two_way`.
    two_way : bool
        A port that writes also reads, and another one reads.
    one_address : bool
        Reads and writes have one address, and exclude each other.
    constant : bool
        Nothing writes; the contents come with the configuration, which UltraRAM does not take.
    lut_rows : int
        Most words with which they are LUT RAM.
    ultra : bool
        They may be UltraRAM where a device has it: large ones, as a plan tries all choices.
    """

    name: str
    depth: int
    width: int
    count: int = 1
    reads: int = 1
    two_way: bool = False
    one_address: bool = False
    constant: bool = False
    lut_rows: int = LUT_ROWS
    ultra: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds that a plan may choose, the one that every device has first."""
        if self.depth <= self.lut_rows:
            return ("distributed",)
        return ("block", "ultra") if self.ultra and not self.constant else ("block",)

    def fit(self, kind: Kind) -> Fit | None:
        """One of the memories, of one port that reads, in blocks of a kind; None in LUT RAM."""
        if kind == "ultra":
            return ultra_rams(self.depth, self.width, self.one_address)
        return block_rams(self.depth, self.width, self.two_way, self.constant) if kind == "block" else None

    def blocks(self, kind: Kind) -> Blocks:
        """Blocks of all of the memories in a kind."""
        fit = self.fit(kind)
        return fit.blocks * (self.count * (1 if self.two_way else self.reads)) if fit else Blocks()


@dataclass(frozen=True)
class MemoryPlan:
    """Kinds of a block's memories on a device.

    Of all choices that fit, or else come nearest, it is the one with the smallest sum of the shares of the device's
    block RAMs and UltraRAMs, to which half of the larger share is added: blocks are worth what the device has of them,
    and neither of the two runs out while there is much of the other.

    Parameters
    ----------
    device : Device
    memories : tuple of MemoryShape
    """

    device: Device
    memories: tuple[MemoryShape, ...] = ()

    @cached_property
    def kinds(self) -> dict[MemoryShape, Kind]:
        """Kind of each memory: all of the plan that the RTL depends on."""
        return dict(zip(self.memories, _cheapest(self.memories, self.device), strict=True))

    def kind(self, memory: MemoryShape) -> Kind:
        """Kind of a memory; one that the plan does not know, such as a FIFO, has its first one on any device."""
        return self.kinds.get(memory, memory.kinds[0])

    @property
    def table(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of a table for people: what memories hold, their number, rows x bits, kind, and blocks."""
        rows = []
        for one, kind in self.kinds.items():
            fit, taken = one.fit(kind), one.blocks(kind)
            count = f"{taken.uram:g} URAM" if kind == "ultra" else f"{taken.bram36:g} BRAM36"
            text = f"{count} of {fit.rows} x {fit.width}" if fit else ""
            if fit and fit.segments > 1:
                text += f", {fit.segments} deep"
            rows.append((one.name, str(one.count), f"{one.depth} x {one.width}", KIND_NAMES[kind], text))
        return rows

    @property
    def blocks(self) -> Blocks:
        """Blocks of all memories."""
        return total(memory.blocks(kind) for memory, kind in self.kinds.items())


def total(blocks: Iterable[Blocks]) -> Blocks:
    """Add blocks."""
    return reduce(add, blocks, Blocks())


def _cheapest(memories: Sequence[MemoryShape], device: Device) -> tuple[Kind, ...]:
    """Choose the kinds of memories."""
    choices = [memory.kinds if device.uram else memory.kinds[:1] for memory in memories]
    free = [at for at, kinds in enumerate(choices) if len(kinds) > 1]
    costs = {(at, kind): memories[at].blocks(kind) for at, kinds in enumerate(choices) for kind in kinds}
    fixed = total(costs[at, kinds[0]] for at, kinds in enumerate(choices) if len(kinds) == 1)

    def cost(kinds: tuple[Kind, ...]) -> tuple[float, float]:
        blocks = total((fixed, *(costs[at, kind] for at, kind in zip(free, kinds, strict=True))))
        shares = [blocks.bram36 / device.bram36, blocks.uram / device.uram if device.uram else 0]
        return max(1.0, *shares), sum(shares) + max(shares) / 2

    tried: Iterable[tuple[Kind, ...]] = product(*(choices[at] for at in free))
    cheapest: tuple[Kind, ...] = min(tried, key=cost)
    best = iter(cheapest)
    return tuple(next(best) if len(kinds) > 1 else kinds[0] for kinds in choices)


LUT_ENTRIES = 127
"""Most entries of a FIFO in LUT RAM."""


def fifo_memory(name: str, depth: int, width: int) -> MemoryShape:
    """Memory of a FIFO."""
    return MemoryShape(name, depth, width, lut_rows=LUT_ENTRIES)
