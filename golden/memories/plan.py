"""Plan of a block's memories: kind of RAM of each on a device, and RAM blocks."""

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
"""Default largest depth in LUT RAM: the rows of one RAM64M8."""


@dataclass(frozen=True)
class Device:
    """RAM blocks of a device, by default the XCK26's."""

    bram36: int = 144
    uram: int = 64


@dataclass(frozen=True)
class MemoryShape:
    """Memories of a block with equal shape and kind.

    Parameters
    ----------
    name : str
        Contents; unique within a block.
    depth, width : int
        Words, and bits of a word.
    count : int
        Number of memories.
    reads : int
        Read ports: a copy each, unless `two_way`.
    two_way : bool
        True if a write port also reads, beside another read port.
    one_address : bool
        True if reads and writes share an address and exclude each other.
    constant : bool
        True for contents from the configuration, without writes; excludes UltraRAM.
    lut_rows : int
        Largest depth in LUT RAM.
    ultra : bool
        True if UltraRAM is allowed; for large memories only, as a plan tries all choices.
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
        """Kinds that a plan may choose; the first exists on every device."""
        if self.depth <= self.lut_rows:
            return ("distributed",)
        return ("block", "ultra") if self.ultra and not self.constant else ("block",)

    def fit(self, kind: Kind) -> Fit | None:
        """Blocks of a single memory with a single read port; None for LUT RAM."""
        if kind == "ultra":
            return ultra_rams(self.depth, self.width, self.one_address)
        return block_rams(self.depth, self.width, self.two_way, self.constant) if kind == "block" else None

    def blocks(self, kind: Kind) -> Blocks:
        """Blocks of all these memories."""
        fit = self.fit(kind)
        return fit.blocks * (self.count * (1 if self.two_way else self.reads)) if fit else Blocks()


@dataclass(frozen=True)
class MemoryPlan:
    """Kinds of a block's memories on a device.

    Of all choices that fit, or else come nearest, the plan minimises the sum of the used fractions of block RAM and of
    UltraRAM, plus half of the larger fraction. Blocks are so weighted by their number on the device, and neither kind
    runs out while the other is plentiful.
    """

    device: Device
    memories: tuple[MemoryShape, ...] = ()

    @cached_property
    def kinds(self) -> dict[MemoryShape, Kind]:
        """Kind of each memory; the RTL depends on nothing else of the plan."""
        return dict(zip(self.memories, _cheapest(self.memories, self.device), strict=True))

    def kind(self, memory: MemoryShape) -> Kind:
        """Kind of a memory; the default kind for memories outside the plan, for example FIFOs."""
        return self.kinds.get(memory, memory.kinds[0])

    @property
    def table(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of a table: contents, number, rows x bits, kind, and blocks of the memories."""
        rows = []
        for memory, kind in self.kinds.items():
            fit, taken = memory.fit(kind), memory.blocks(kind)
            count = f"{taken.uram:g} URAM" if kind == "ultra" else f"{taken.bram36:g} BRAM36"
            text = f"{count} of {fit.rows} x {fit.width}" if fit else ""
            if fit and fit.segments > 1:
                text += f", {fit.segments} deep"
            rows.append((memory.name, str(memory.count), f"{memory.depth} x {memory.width}", KIND_NAMES[kind], text))
        return rows

    @property
    def blocks(self) -> Blocks:
        return total(memory.blocks(kind) for memory, kind in self.kinds.items())


def total(blocks: Iterable[Blocks]) -> Blocks:
    return reduce(add, blocks, Blocks())


def _cheapest(memories: Sequence[MemoryShape], device: Device) -> tuple[Kind, ...]:
    choices = [memory.kinds if device.uram else memory.kinds[:1] for memory in memories]
    free = [index for index, kinds in enumerate(choices) if len(kinds) > 1]
    costs = {(index, kind): memories[index].blocks(kind) for index, kinds in enumerate(choices) for kind in kinds}
    fixed = total(costs[index, kinds[0]] for index, kinds in enumerate(choices) if len(kinds) == 1)

    def cost(kinds: tuple[Kind, ...]) -> tuple[float, float]:
        blocks = total((fixed, *(costs[index, kind] for index, kind in zip(free, kinds, strict=True))))
        shares = [blocks.bram36 / device.bram36, blocks.uram / device.uram if device.uram else 0]
        return max(1.0, *shares), sum(shares) + max(shares) / 2

    tried: Iterable[tuple[Kind, ...]] = product(*(choices[index] for index in free))
    cheapest: tuple[Kind, ...] = min(tried, key=cost)
    best = iter(cheapest)
    return tuple(next(best) if len(kinds) > 1 else kinds[0] for kinds in choices)


LUT_ENTRIES = 127
"""Largest depth of a FIFO in LUT RAM."""


def fifo_memory(name: str, depth: int, width: int) -> MemoryShape:
    return MemoryShape(name, depth, width, lut_rows=LUT_ENTRIES)
