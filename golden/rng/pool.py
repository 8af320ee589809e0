"""`pool`: pre-generated numbers in block RAM, p a cycle, read cyclically (PeZO, section 3.1, pre-generation).

N numbers are drawn once, scaled to the modulus of an N-dimensional Gaussian, and stored in 12 bits. Row t of the memory
has the numbers ``(t p + j) mod N``; the N / gcd(N, p) rows repeat. With N = p (2**k - 1), the cheap form, every number
is stored once. With the paper's N = 4095 and p = 8 the memory has 4095 rows: each number is stored in all 8 lanes, and
a pass continues without a shifter at the numbers left over from the pass before.

The row address is a maximal LFSR if the number of rows is 2**k - 1, with a single XOR for the next address, else a
counter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..block import Field, Spec, Stream, Words
from ..errors import UserError, check_range
from ..fixed import Format, Integers
from ..memories.plan import MemoryShape
from .lfsr import TAPS, Lfsr, shifted_in
from .perturbation import walk
from .scale import cyclic, expected_modulus
from .urng import BIT, refuse_power_of_two, state_ports


@dataclass(frozen=True, kw_only=True)
class PoolSpec(Spec):
    """Parameters and model of `pool`.

    Parameters
    ----------
    size : int
        Numbers in the pool, N, 2 to 2^20. Not a power of two: every row of a layer would meet the same numbers (section
        3.1).
    p : int
        Numbers a cycle, 1 to `size`, for at least two different rows.
    bits : int
        Width of a number, 4 to 18, with two integer bits: scaled numbers are below sqrt(3) in magnitude.
    seed : int
        Seed of the pool's contents, at least 0 (PCG64, a stream guaranteed by NumPy).
    allow_power_of_two : bool
        Accept N = 2**k, against the paper's advice.
    """

    name: ClassVar[str] = "pool"
    summary: ClassVar[str] = "pre-generated, pre-scaled numbers in block RAM, p per cycle, with replay"
    presets: ClassVar[dict[str, dict[str, object]]] = {"cheap": {"size": 4088}, "exact": {"size": 4095}}

    size: int = 4088
    p: int = 8
    bits: int = 12
    seed: int = 0
    allow_power_of_two: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("bits", self.bits, 4, 18)
        check_range("size", self.size, 2, 1 << 20)
        if not 1 <= self.p <= self.size:
            raise UserError(f"p = {self.p} numbers per cycle is not in 1 to the pool's size, {self.size}")
        if self.seed < 0:
            raise UserError(f"seed = {self.seed} is negative")
        refuse_power_of_two("size", self.size, self.allow_power_of_two)
        if self.rows < 2:
            raise UserError(f"size = {self.size} and p = {self.p} make one row: every cycle would be the same; lower p")

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """Scaled numbers of the pool with ``bits - 2`` fraction bits: (size,)."""
        raw = np.random.PCG64(self.seed).random_raw(self.size) >> np.uint64(34)
        odd = 2 * raw.astype(np.int64) + 1 - (1 << 30)
        modulus = np.sqrt((odd.astype(np.float64) ** 2).sum())
        return self.format.from_float(odd * (expected_modulus(self.size) / modulus)).astype(np.int32)

    @property
    def format(self) -> Format:
        return Format(2, self.bits - 2)

    @property
    def rows(self) -> int:
        """Rows until they repeat."""
        return self.size // gcd(self.size, self.p)

    @cached_property
    def base(self) -> NDArray[np.int32]:
        """Rows in reading order: (rows, p)."""
        starts = self.p * np.arange(self.rows)[:, None]
        rows: NDArray[np.int32] = self.numbers[(starts + np.arange(self.p)) % self.size]
        return rows

    # -- the hardware's memory -------------------------------------------------------------------------------------

    @cached_property
    def lfsr(self) -> Lfsr | None:
        """Address register if the number of rows is 2**k - 1; None for a counter."""
        bits = self.rows.bit_length()
        return Lfsr(bits) if self.rows == (1 << bits) - 1 and bits in TAPS else None

    @property
    def address_bits(self) -> int:
        return self.lfsr.bits if self.lfsr else (self.rows - 1).bit_length()

    @cached_property
    def addresses(self) -> Integers:
        """Address of each row in reading order."""
        return self.lfsr.states if self.lfsr else np.arange(self.rows)

    @cached_property
    def rom(self) -> list[int]:
        """Contents of the memory by address: p numbers per word, number 0 lowest."""
        words = [0] * (int(self.addresses.max()) + 1)
        packed = self.streams()["o"].pack({"number": self.base}, ["number"])
        for address, word in zip(self.addresses.tolist(), packed, strict=True):
            words[address] = word
        return words

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (MemoryShape("pool", int(self.addresses.max()) + 1, self.p * self.bits, constant=True, lut_rows=0),)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return {"pool": (self.rom, self.p * self.bits)}

    def serial(self, position: int) -> Integers:
        """Bits that load the row address of a position, in order of transmission."""
        return shifted_in(int(self.addresses[position % self.rows]), self.address_bits)

    # -- as a source of perturbations ------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.p

    @property
    def fraction_bits(self) -> int:
        return self.bits - 2

    @property
    def largest(self) -> int:
        return int(np.abs(self.base).max())

    @property
    def period(self) -> int:
        return self.rows

    @property
    def rotates(self) -> bool:
        return False

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Scaled numbers from a position on: (cycles, p)."""
        return cyclic(self.base, position, cycles)

    # -- the block -------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        return {
            **state_ports(),
            "o": Stream(
                "out",
                (Field("number", self.format, self.p),),
                doc="The row. `valid` from the first cycle after reset and held while `ready` is low.",
            ),
            **replay_ports(),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": {"number": self.words_at(replayed(inputs, words))}}

    def words_at(self, positions: Integers) -> Integers:
        """Rows at any positions: (len(positions), p)."""
        return self.base[positions % self.rows].astype(np.int64)


def replay_ports() -> dict[str, Stream]:
    """Sideband ports of a source with replay: `replay` and `mark`."""
    return {
        "replay": Stream(
            "in",
            (Field("bit", BIT),),
            follows="o",
            doc="Sampled with a transfer at `o`: the next word is the one at the mark. Wins over `mark`.",
        ),
        "mark": Stream(
            "in",
            (Field("bit", BIT),),
            follows="o",
            doc="Sampled with a transfer at `o`: the next word becomes the mark.",
        ),
    }


def replayed(inputs: dict[str, Words], words: int) -> Integers:
    """Positions of the output words with these sidebands, see `walk`."""
    none = {"bit": np.zeros((0, 1), np.int64)}
    return walk(inputs.get("replay", none)["bit"][:, 0], inputs.get("mark", none)["bit"][:, 0], words)


def replayed_cycles(inputs: dict[str, Words], words: int, each: int) -> int:
    """Cycles of `words` words: one per word, and `each` for each mark or replay before the last word."""
    if not inputs:
        return words
    strobes = inputs["replay"]["bit"] | inputs["mark"]["bit"]
    return words + each * int(strobes[: words - 1].sum())
