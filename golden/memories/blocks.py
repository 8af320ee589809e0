"""Blocks of RAM that a memory takes on an UltraScale+ device, by its depth, width and ports.

The rules are those of open synthesis, Yosys's ``memory_libmap`` with the costs of its library. A memory that is deeper
than an aspect is cut into segments, which stand side by side in the blocks with a multiplexer behind. Segments begin
at a byte, as each has a write enable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

RAMB18, RAMB36 = 18 * 1024, 36 * 1024
"""Bits of the two block RAMs, parity included."""
_COST = {RAMB18: 129, RAMB36: 257}
_MUX = 0.5
"""Cost of a bit of a multiplexer, per segment behind the first."""
_BYTE = 9
URAM_ROWS, URAM_WIDTH = 4096, 72
"""The aspect of a URAM288; its bytes have 8 or 9 bits."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of RAM.

    Parameters
    ----------
    bram36 : float
        Block RAMs of 36 Kib; one of 18 Kib is a half.
    uram : int
        UltraRAMs.
    """

    bram36: float = 0
    uram: int = 0

    def __add__(self, other: Blocks) -> Blocks:
        return Blocks(self.bram36 + other.bram36, self.uram + other.uram)

    def __mul__(self, count: int) -> Blocks:
        return Blocks(self.bram36 * count, self.uram * count)


@dataclass(frozen=True)
class Fit:
    """A memory in blocks of one kind and aspect.

    Parameters
    ----------
    primitive : str
        ``RAMB18E2``, ``RAMB36E2`` or ``URAM288``.
    count : int
        Number of blocks.
    rows, width : int
        Aspect.
    segments : int
        Segments that the memory's rows are cut into.
    """

    primitive: str
    count: int
    rows: int
    width: int
    segments: int

    @property
    def blocks(self) -> Blocks:
        """The blocks."""
        if self.primitive == "URAM288":
            return Blocks(uram=self.count)
        return Blocks(bram36=self.count / (1 if self.primitive == "RAMB36E2" else 2))


@cache
def block_rams(depth: int, width: int, two_way: bool = False, constant: bool = False) -> Fit:
    """Fit a memory into block RAM in the aspect that costs least.

    Parameters
    ----------
    depth, width : int
        Words, and bits of each.
    two_way : bool
        One of two ports reads and writes, which takes the widest aspect away.
    constant : bool
        Nothing writes.
    """
    fits = []
    for bits, cost in _COST.items():
        widest = bits // 512
        for aspect in (1, 2, 4, 9, 18, 36, 72):
            if aspect <= (widest // 2 if two_way else widest):
                rows = bits // aspect if aspect >= _BYTE else bits // _BYTE * 8 // aspect
                segments = -(-depth // rows)
                each = width if constant or aspect < _BYTE else -(-width // _BYTE) * _BYTE
                count = -(-segments * each // aspect)
                total = count * cost + _MUX * (segments - 1) * width
                fits.append((total, Fit("RAMB18E2" if bits == RAMB18 else "RAMB36E2", count, rows, aspect, segments)))
    return min(fits, key=lambda one: one[0])[1]


@cache
def ultra_rams(depth: int, width: int, one_address: bool = False) -> Fit:
    """Fit a memory into UltraRAM.

    Parameters
    ----------
    depth, width : int
    one_address : bool
        Reads and writes have one address, and exclude each other: both ports of a block may serve one word.
    """
    fits = []
    for ports in (1, 2) if one_address else (1,):
        rows, bits = URAM_ROWS // ports, URAM_WIDTH * ports
        segments = -(-depth // rows)
        count = min(-(-segments * -(-width // byte) * byte // bits) for byte in (8, 9))
        fits.append(Fit("URAM288", count, rows, bits, segments))
    return min(fits, key=lambda one: one.count)
