"""RAM blocks of a memory on an UltraScale+ device, by depth, width and ports.

The rules are Yosys's ``memory_libmap`` and library costs. A memory deeper than an aspect ratio is cut into parallel
segments with a multiplexer at the output. Each segment has a write enable, so it begins at a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

RAMB18, RAMB36 = 18 * 1024, 36 * 1024
"""Bits of both block RAMs, parity included."""
_COST = {RAMB18: 129, RAMB36: 257}
_MUX = 0.5
"""Cost of a multiplexer bit, for each segment after the first."""
_BYTE = 9
URAM_ROWS, URAM_WIDTH = 4096, 72
"""Aspect ratio of a URAM288; its bytes have 8 or 9 bits."""


@dataclass(frozen=True)
class Blocks:
    """RAM blocks: `bram36` block RAMs of 36 Kib, an 18 Kib block counts a half; `uram` UltraRAMs."""

    bram36: float = 0
    uram: int = 0

    def __add__(self, other: Blocks) -> Blocks:
        return Blocks(self.bram36 + other.bram36, self.uram + other.uram)

    def __mul__(self, count: int) -> Blocks:
        return Blocks(self.bram36 * count, self.uram * count)


@dataclass(frozen=True)
class Fit:
    """A memory, in `segments`, in `count` blocks of one primitive and aspect ratio, `rows` x `width`.

    The primitive is ``RAMB18E2``, ``RAMB36E2`` or ``URAM288``.
    """

    primitive: str
    count: int
    rows: int
    width: int
    segments: int

    @property
    def blocks(self) -> Blocks:
        if self.primitive == "URAM288":
            return Blocks(uram=self.count)
        return Blocks(bram36=self.count / (1 if self.primitive == "RAMB36E2" else 2))


@cache
def block_rams(depth: int, width: int, two_way: bool = False, constant: bool = False) -> Fit:
    """Cheapest fit of a memory of `depth` words of `width` bits in block RAM.

    With `two_way` a port both reads and writes, beside a read port: the widest aspect ratio is excluded. `constant` is
    a ROM.
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
    return min(fits, key=lambda priced: priced[0])[1]


@cache
def ultra_rams(depth: int, width: int, one_address: bool = False) -> Fit:
    """Cheapest fit of a memory of `depth` words of `width` bits in UltraRAM.

    With `one_address` reads and writes share an address and exclude each other, so both ports of a block may serve a
    word.
    """
    fits = []
    for ports in (1, 2) if one_address else (1,):
        rows, bits = URAM_ROWS // ports, URAM_WIDTH * ports
        segments = -(-depth // rows)
        count = min(-(-segments * -(-width // byte) * byte // bits) for byte in (8, 9))
        fits.append(Fit("URAM288", count, rows, bits, segments))
    return min(fits, key=lambda fit: fit.count)
