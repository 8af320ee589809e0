"""`grng`: Gaussian numbers from eight LFSRs, for MeZO; PeZO uses uniform numbers instead.

`tree` is TreeGRNG (Crols et al., DATE 2024) as in the published example: a number is determined bit by bit, and each
bit compares a register with a threshold selected by the bits above. `select` gives the same numbers with one comparator
a level. `sum` adds the registers (central limit theorem).

The density is cut at 4 sigma into 256 bins of 1/32 sigma. A bit is ``register >= T``; T represents the probability of
the lower half under the condition of the bits above, rounded to nearest. The two last levels are simplified: only the 5
and the 4 topmost bits select, and T has 7 bits, so neighbours share a comparator. Positive numbers are mirrored: the
thresholds of negative numbers, selected by the complemented bits, give the complemented bit.

An integer y represents the middle of its bin, ``(2 y + 1) / 64`` sigma, as in `urng`: its mirror image is ~y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import erfc, floor, lcm, sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Format, Integers, narrow
from .lfsr import Lfsr

WIDTHS = (8, 9, 10, 7, 8, 9, 7, 10)
"""Width of each level's register, the sign's first; 68 bits in total."""
STORED = (1, 1, 2, 4, 8, 16, 16, 8)
"""Thresholds of each level; fewer than 2**(level - 1) if only the topmost bits select."""
COARSE = 7
"""Width of a threshold on the two last levels."""
SEEDS = (0x0AB, 0x19A, 0x0B6, 0x56, 0x0D6, 0x129, 0x1A, 0x27A)
"""Seeds of the published example."""
NUMBER = Format(3, 5)
"""Format of the numbers: 32 steps per sigma."""
TERM = 7
"""Topmost bits of each register that `sum` adds."""
TERM_FRACTION = 7
"""Fraction bits of a term of `sum`; the sum of the eight then has a sigma of 0.816."""

_CHUNK = 1 << 15


@lru_cache
def thresholds() -> tuple[tuple[int, ...], ...]:
    """Thresholds of each level, the sign's first, by the selecting bits."""
    edges = [0.5 * erfc((4 - x / 32) / sqrt(2)) for x in range(129)]
    table: list[tuple[int, ...]] = [(1 << (WIDTHS[0] - 1),)]
    for level in range(1, 8):
        half, nodes = 128 >> level, 128 // STORED[level]
        bits = WIDTHS[level] if level < 6 else COARSE
        row = []
        for start in range(0, 128, nodes):
            lower = sum(edges[x + half] - edges[x] for x in range(start, start + nodes, 2 * half))
            share = lower / (edges[start + nodes] - edges[start])
            row.append(floor(share * (1 << bits) + 0.5) << (WIDTHS[level] - bits))
        table.append(tuple(row))
    return tuple(table)


@dataclass(frozen=True, kw_only=True)
class GrngSpec(Spec):
    """Parameters and model of `grng`.

    Parameters
    ----------
    form : "tree", "select" or "sum"
        Comparators followed by a multiplexer, as published; a multiplexer of thresholds followed by one comparator,
        with equal numbers; or a sum of uniform numbers.
    seeds : tuple of int
        Contents of the registers after reset, the sign's first. Not all ones, the frozen state of an XNOR register, and
        not equal for two registers of one width.
    """

    name: ClassVar[str] = "grng"
    summary: ClassVar[str] = "Gaussian numbers by a binary tree or a sum: the baseline, for comparison only"

    form: Literal["tree", "select", "sum"] = "tree"
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds:
            object.__setattr__(self, "seeds", SEEDS)
        if len(self.seeds) != len(WIDTHS):
            raise UserError(f"{len(self.seeds)} seeds for {len(WIDTHS)} registers: give one each, or none for defaults")
        for level, (seed, bits) in enumerate(zip(self.seeds, WIDTHS, strict=True)):
            ones = (1 << bits) - 1
            if seed == ones:
                raise UserError(f"seed {level} is {seed}, all ones, where the register is frozen: take 0 to {ones - 1}")
            if not 0 <= seed < ones:
                raise UserError(f"seed {level} is {seed}, outside 0 to {ones - 1} ({bits} bits)")
            for twin in range(level):
                if (self.seeds[twin], WIDTHS[twin]) == (seed, bits):
                    raise UserError(f"seeds {twin} and {level} are both {seed}: two identical registers; change one")

    @cached_property
    def lfsrs(self) -> tuple[Lfsr, ...]:
        """Registers in XOR form; the block has their complements, the XNOR form."""
        return tuple(Lfsr(bits) for bits in WIDTHS)

    @property
    def width(self) -> int:
        return 1

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of `draw`: one more than the block's, for the half step."""
        return NUMBER.fraction + 1

    @property
    def largest(self) -> int:
        return 2 * NUMBER.maximum + 1

    @property
    def period(self) -> int:
        """Cycles until all registers repeat; the sign alone repeats after 255."""
        return lcm(*(lfsr.period for lfsr in self.lfsrs))

    # -- the sequence ----------------------------------------------------------------------------------------

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Numbers from a position on, as odd integers in 2**-6 sigma: (cycles, 1)."""
        numbers = np.empty((cycles, 1), np.int32)
        for start in range(0, cycles, _CHUNK):
            stop = min(cycles, start + _CHUNK)
            contents = [
                turns[(position + start) % period :][: stop - start]
                for turns, period in zip(self._turns, (lfsr.period for lfsr in self.lfsrs), strict=True)
            ]
            numbers[start:stop, 0] = self.numbers_of(contents)
        return numbers * 2 + 1

    def numbers_of(self, contents: list[NDArray[np.uint16]]) -> Integers | NDArray[np.int32]:
        """Numbers y of register contents: eight arrays of one shape, the sign's first."""
        return self._summed(contents) if self.form == "sum" else self._decided(contents)

    @cached_property
    def _turns(self) -> tuple[NDArray[np.uint16], ...]:
        turns = []
        for lfsr, seed in zip(self.lfsrs, self.seeds, strict=True):
            phase = lfsr.phases[lfsr.period ^ seed]
            contents = lfsr.period ^ np.roll(lfsr.states, -phase)
            turns.append(np.resize(contents, lfsr.period + _CHUNK).astype(np.uint16))
        return tuple(turns)

    @cached_property
    def _nodes(self) -> tuple[NDArray[np.uint16], ...]:
        """Threshold of every node for negative numbers, with the simplified levels expanded."""
        nodes = (1, *(1 << level for level in range(7)))
        rows = zip(nodes, thresholds(), strict=True)
        return tuple(np.repeat(np.array(row, np.uint16), count // len(row)) for count, row in rows)

    def _decided(self, contents: list[NDArray[np.uint16]]) -> NDArray[np.int32]:
        sign = contents[0] >= self._nodes[0][0]
        mirrored = np.zeros(sign.shape, np.intp)
        for level in range(1, 8):
            bit = contents[level] >= self._nodes[level].take(mirrored)
            mirrored += mirrored
            mirrored += bit
        numbers = mirrored.astype(np.int32) - 128
        return np.where(sign, ~numbers, numbers)

    def _summed(self, contents: list[NDArray[np.uint16]]) -> Integers:
        total = np.zeros(contents[0].shape, np.int64)
        for register, bits in zip(contents, WIDTHS, strict=True):
            total += _term(register, bits)
        return _narrowed(total)

    @cached_property
    def distribution(self) -> NDArray[np.float64]:
        """Probability of each number, -128 first, for independent registers: (256,)."""
        periods = [lfsr.period for lfsr in self.lfsrs]
        if self.form == "sum":
            sums = np.ones(1)
            for bits, period in zip(WIDTHS, periods, strict=True):
                counts = np.bincount(_term(np.arange(period), bits) + (1 << TERM - 1))
                sums = np.convolve(sums, counts / period)
            numbers = _narrowed(np.arange(sums.size) - (len(WIDTHS) << TERM - 1))
            return np.bincount(numbers + 128, sums, 256).astype(np.float64)
        shares = np.ones(1)
        for nodes, period in zip(self._nodes[1:], periods[1:], strict=True):
            lower = nodes / period
            shares = np.stack([shares * lower, shares * (1 - lower)], axis=1).ravel()
        minus = self._nodes[0][0] / periods[0]
        return np.concatenate([minus * shares, (1 - minus) * shares[::-1]])

    @property
    def sigma(self) -> float:
        """Standard deviation of `distribution`."""
        middles = NUMBER.to_float(np.arange(-128, 128) + 0.5)
        mean = self.distribution @ middles
        return float(np.sqrt(self.distribution @ (middles - mean) ** 2))

    # -- the block -------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        return {
            "o": Stream(
                "out", (Field("number", NUMBER),), doc="The number. `valid` is always 1; held while `ready` is low."
            )
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": {"number": self.draw(0, words).astype(np.int64) >> 1}}


def _term(contents: NDArray[np.integer], bits: int) -> Integers:
    top = contents.astype(np.int64) >> (bits - TERM)
    return (top ^ (1 << TERM - 1)) - (1 << TERM - 1)


def _narrowed(total: Integers) -> Integers:
    """Narrow a sum of terms; each term and each number represents its integer plus half a step."""
    exact = total + len(WIDTHS) // 2
    half = 1 << (TERM_FRACTION - NUMBER.fraction - 1)
    return narrow(exact - half, TERM_FRACTION, NUMBER)
