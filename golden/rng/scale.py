"""`scale`: factor that gives uniform numbers the modulus of a Gaussian (PeZO, section 3.2, equations 3 to 5).

A cycle's factor is the expected modulus of an n-dimensional Gaussian divided by the modulus of the cycle's n numbers.
Rotation only permutes the numbers: their modulus depends on time alone and repeats with the period of *one* generator.
A reference generator without rotation runs through this period; its state addresses the table of factors. (The number
in first position cannot be the address: with rotation, different sets have the same number there.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import exp, lgamma, log
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Format, Integers
from ..memories.plan import MemoryShape
from .lfsr import shifted_in
from .urng import UrngSpec, rotate, state_ports

LUT_ROM_DEPTH = 512
"""Shortest period with a table in block RAM; shorter tables are logic."""


def expected_modulus(n: int) -> float:
    """Expected length of a vector of n standard Gaussian numbers (equation 5)."""
    return exp(0.5 * log(2) + lgamma((n + 1) / 2) - lgamma(n / 2))


@dataclass(frozen=True, kw_only=True)
class ScaleSpec(Spec):
    """Parameters and model of `scale`.

    Parameters
    ----------
    urng : UrngSpec
        Array of the scaled numbers: `urng.n`, `urng.bits`, ...
    mode : "fraction", "pow2" or "constant"
        `fraction`: nearest multiple of 2^-`fraction`. `pow2`: power of two of the nearest ratio (rounded logarithm), as
        in the paper. `constant`: one factor for all cycles, for the right mean modulus, to 2^-`fraction`.
    fraction : int
        Fraction bits, 0 to 12, enough for a factor above 0; ignored with "pow2".
    """

    name: ClassVar[str] = "scale"
    summary: ClassVar[str] = "Gaussian modulus over the numbers' modulus, by a reference generator and a table"

    urng: UrngSpec = field(default_factory=UrngSpec)
    mode: Literal["fraction", "pow2", "constant"] = "fraction"
    fraction: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fraction <= 12:
            raise UserError(f"fraction = {self.fraction} bits is not in 0 to 12")
        if self.mode == "pow2":
            object.__setattr__(self, "fraction", 0)
        if not self.table.any():
            raise UserError(f"fraction = {self.fraction}: every factor rounds to 0; give more bits")

    @cached_property
    def exact(self) -> NDArray[np.float64]:
        """Factor at each time of the period, before rounding."""
        squares = (self.urng.by_generator.astype(np.int64) ** 2).sum(axis=1)
        result: NDArray[np.float64] = np.ldexp(
            expected_modulus(self.urng.n) / np.sqrt(squares.astype(np.float64)), self.urng.bits
        )
        return result

    @cached_property
    def table(self) -> Integers:
        """Factor at each time of the period, integers with `fraction` fraction bits."""
        if self.mode == "constant":
            mean = 1 / np.mean(1 / self.exact)
            return np.full(len(self.exact), np.rint(np.ldexp(mean, self.fraction)), np.int64)
        if self.mode == "fraction":
            return np.rint(np.ldexp(self.exact, self.fraction)).astype(np.int64)
        return np.exp2(np.rint(np.log2(self.exact))).astype(np.int64)

    @property
    def modulus_error(self) -> NDArray[np.float64]:
        """Relative error of the scaled numbers' modulus at each time of the period."""
        return np.ldexp(self.table.astype(np.float64), -self.fraction) / self.exact - 1

    @property
    def format(self) -> Format:
        return Format(max(int(self.table.max()).bit_length() - self.fraction, 1), self.fraction, signed=False)

    # -- the hardware's table ----------------------------------------------------------------------------------

    @property
    def varies(self) -> bool:
        """True if the factor is not constant; for n = 31 the paper's power of two is always 2."""
        return bool(self.table.min() != self.table.max())

    @property
    def in_block_ram(self) -> bool:
        """True if the table is a memory with a registered read."""
        return self.varies and self.urng.lfsr.period >= LUT_ROM_DEPTH

    @cached_property
    def rom(self) -> Integers:
        """Table by the reference generator's state: the factor minus the smallest factor."""
        rom = np.zeros(self.urng.lfsr.period + 1, np.int64)
        rom[self.urng.lfsr.states] = self.table - self.table.min()
        return rom

    @property
    def rom_width(self) -> int:
        return int(self.rom.max()).bit_length()

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        shape = MemoryShape("factors", self.urng.lfsr.period + 1, self.rom_width, constant=True, lut_rows=0)
        return (shape,) if self.in_block_ram else ()

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of the table, by the reference generator's state."""
        return {"scale": (self.rom.tolist(), self.rom_width)} if self.varies else {}

    def reference(self, position: int) -> int:
        """State of the reference generator at a position."""
        return int(self.urng.lfsr.states[position % self.urng.lfsr.period])

    def serial(self, position: int) -> Integers:
        """Bits that load the reference generator, in order of transmission; none if the factor is constant."""
        if not self.varies:
            return np.empty(0, np.int64)
        return shifted_in(self.reference(position), self.urng.bits)

    # -- as a source of perturbations ------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.urng.n

    @property
    def period(self) -> int:
        return self.urng.period

    @property
    def fraction_bits(self) -> int:
        return self.urng.bits + self.fraction

    @property
    def largest(self) -> int:
        return int(np.abs(self.base).max())

    @cached_property
    def base(self) -> NDArray[np.int32]:
        """Scaled numbers of each generator over its period, *not* rotated: (period of one generator, n)."""
        return (self.urng.by_generator * self.table[:, None]).astype(np.int32)

    @property
    def rotates(self) -> bool:
        """True: in every cycle each register takes its neighbour's next number."""
        return True

    @cached_property
    def _turn(self) -> NDArray[np.int32] | None:
        return rotate(self.base, 0, self.period) if self.period * self.width <= 1 << 22 else None

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Scaled numbers with ``urng.bits + fraction`` fraction bits: (cycles, n)."""
        if self._turn is None:
            return rotate(self.base, position, cycles)
        return cyclic(self._turn, position, cycles)

    def factors(self, position: int, cycles: int) -> Integers:
        """Factors from a position on: (cycles,)."""
        return self.table[(position + np.arange(cycles)) % len(self.table)]

    # -- the block -------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        return {
            **state_ports(),
            "o": Stream(
                "out",
                (Field("scale", self.format),),
                doc="The factor. `valid` from the first cycle after reset and held while `ready` is low.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": {"scale": self.factors(0, words)[:, None]}}


def cyclic(turn: NDArray[np.int32], position: int, cycles: int) -> NDArray[np.int32]:
    """Rows of a periodic sequence from a position on."""
    period = len(turn)
    start = position % period
    if start + cycles <= period:
        return turn[start : start + cycles].copy()
    rows = np.empty((cycles, *turn.shape[1:]), turn.dtype)
    done = 0
    while done < cycles:
        take = min(cycles - done, period - start)
        rows[done : done + take] = turn[start : start + take]
        done, start = done + take, 0
    return rows
