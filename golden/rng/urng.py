"""`urng`: array of rotating LFSRs, n uniform numbers per cycle (PeZO, section 3.1, on-the-fly generation).

Every cycle each register takes its neighbour's next state, ``reg[i] <= step(reg[i + 1])``: the generator of the first
number gives the last number next. A generator with phase p in register i is therefore at phase ``p + leap * t`` after t
cycles, in register ``(i - t) mod n``; the state at any position is computed directly.

A register's content x, read as a signed integer y, represents the odd fraction ``(2 y + 1) / 2**bits``: the range is
symmetric, no number is zero, and the lowest bit, always one, is not stored. Over a period every odd fraction occurs
once except +1/2**bits (the register is never zero), so the mean is -2**-bits / (2**bits - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..block import Field, Spec, Stream, Words
from ..errors import UserError, check_range
from ..fixed import Format, Integers
from .lfsr import Lfsr, spread

BIT = Format(1, 0, signed=False)


def refuse_power_of_two(what: str, count: int, allowed: bool) -> None:
    """Refuse a count of 2**k unless allowed: rows of layers often have 2**k weights and would get equal numbers.

    Raises `UserError` if `count` is a power of two, and not `allowed`.
    """
    if count & (count - 1) == 0 and not allowed:
        raise UserError(
            f"{what} = {count} is a power of two, like the widths of layers, whose rows would get equal numbers "
            f"(PeZO, section 3.1): take {max(count - 1, 3)}, or force it with allow_power_of_two=true"
        )


@dataclass(frozen=True, kw_only=True)
class UrngSpec(Spec):
    """Parameters and model of `urng`.

    Parameters
    ----------
    n : int
        Generators, and numbers per cycle: 1 to 2^`bits` - 1, as no more can differ; not a power of two.
    bits : int
        Width of a generator, 4 to 16.
    leap : int
        Steps a cycle, 1 to `bits`, coprime to 2^`bits` - 1, so that all states occur. With 1, as in the paper,
        successive numbers of a generator correlate by -1/4; with 4, by -1/32.
    taps : tuple of int
        Feedback taps, from 1 to `bits`, with the full period; empty for `lfsr.TAPS`.
    seeds : tuple of int
        Contents of the registers at position 0; empty for the phases of `lfsr.spread`.
    allow_power_of_two : bool
        Accept n = 2**k, against the paper's advice.
    """

    name: ClassVar[str] = "urng"
    summary: ClassVar[str] = "rotating LFSR array: n uniform numbers per cycle"

    n: int = 31
    bits: int = 8
    leap: int = 1
    taps: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    allow_power_of_two: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("bits", self.bits, 4, 16)
        self.lfsr.check_leap(self.leap)
        if not 1 <= self.n <= self.lfsr.period:
            raise UserError(
                f"n = {self.n}: {self.bits}-bit generators have {self.lfsr.period} states, so at most that many "
                f"can differ; take 1 to {self.lfsr.period}, or more bits"
            )
        refuse_power_of_two("n", self.n, self.allow_power_of_two)
        if not self.seeds:
            object.__setattr__(self, "seeds", self._spread_seeds())
        self._check_seeds()

    @cached_property
    def lfsr(self) -> Lfsr:
        return Lfsr(self.bits, self.taps)

    @cached_property
    def phases(self) -> Integers:
        result: Integers = self.lfsr.phases[np.array(self.seeds)]
        return result

    @property
    def period(self) -> int:
        return lcm(self.n, self.lfsr.period)

    def _spread_seeds(self) -> tuple[int, ...]:
        for turn in range(self.lfsr.period):
            phases = spread(self.lfsr, self.n, turn)
            if not self._frozen(phases):
                return tuple(self.lfsr.states[phases].tolist())
        raise UserError(f"no default seeds for n = {self.n} at {self.bits} bits and leap {self.leap}: give seeds")

    def _check_seeds(self) -> None:
        if len(self.seeds) != self.n:
            raise UserError(f"{len(self.seeds)} seeds for n = {self.n} generators: give one each, or none for defaults")
        for i, seed in enumerate(self.seeds):
            if seed == 0:
                raise UserError(f"seed {i} is 0, where a generator stays forever: take 1 to {self.lfsr.period}")
            if not 0 < seed <= self.lfsr.period:
                raise UserError(f"seed {i} is {seed}, outside 1 to {self.lfsr.period} ({self.bits} bits)")
            if seed in self.seeds[:i]:
                twin = self.seeds.index(seed)
                raise UserError(f"seeds {twin} and {i} are both {seed}: two identical generators; change one")
        if lag := self._frozen(self.phases):
            raise UserError(
                f"the seeds' phases freeze the array: most registers repeat their number every {lag} cycle(s), as the "
                "rotation undoes the step; leave seeds empty for defaults, or reverse their order"
            )

    def _frozen(self, phases: Integers) -> int:
        """First lag at which more than half of the registers repeat their number, or 0."""
        for lag in range(1, self.n):
            same = (np.roll(phases, -lag) + lag * self.leap - phases) % self.lfsr.period == 0
            if 2 * np.count_nonzero(same) > self.n:
                return lag
        return 0

    # -- the sequence ------------------------------------------------------------------------------------------

    def contents(self, positions: Integers) -> Integers:
        """Contents of the n registers at any positions: (len(positions), n)."""
        cycles = np.asarray(positions, np.int64)[:, None]
        turned = self.phases[(cycles % self.n + np.arange(self.n)) % self.n]
        result: Integers = self.lfsr.states[(turned + self.leap * (cycles % self.lfsr.period)) % self.lfsr.period]
        return result

    def words_at(self, positions: Integers) -> Integers:
        """Output of the block at any positions: signed integers y for (2 y + 1) / 2**bits."""
        return _signed(self.contents(positions), self.bits)

    @cached_property
    def by_generator(self) -> NDArray[np.int32]:
        """Odd fractions in 2**-bits of each generator over its period, *not* rotated: (period of one generator, n)."""
        times = self.leap * np.arange(self.lfsr.period)[:, None]
        contents = self.lfsr.states[(times + self.phases) % self.lfsr.period]
        return (2 * _signed(contents, self.bits) + 1).astype(np.int32)

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Numbers from a position on, as odd integers in 2**-bits: (cycles, n)."""
        return rotate(self.by_generator, position, cycles)

    # -- the serial port -----------------------------------------------------------------------------------------

    def chain(self) -> list[tuple[int, int]]:
        """(register, bit) in the order of the serial port's shift chain.

        As in every cycle, a bit moves from bit k of register i to bit k + leap of register i - 1; from the highest bits
        it moves to the next register's lowest bits.
        """
        links = []
        for head in range(self.n):
            for low in range(self.leap):
                links += [((head - k) % self.n, low + k * self.leap) for k in range(-(-(self.bits - low) // self.leap))]
        return links

    def serial(self, position: int) -> Integers:
        """Bits that load the state of a position, in order of transmission."""
        state = self.contents(np.array([position]))[0]
        return np.array([state[i] >> k & 1 for i, k in reversed(self.chain())], np.int64)

    # -- the block -------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        return {
            **state_ports(),
            "o": Stream(
                "out",
                (Field("number", Format(1, self.bits - 1), self.n),),
                doc="The registers: each integer y represents y + 1/2 last places. `valid` from the first cycle "
                "after reset and held while `ready` is low.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": {"number": self.words_at(np.arange(words))}}


def state_ports() -> dict[str, Stream]:
    """Serial ports that load a generator's state and read the old state at the same time."""
    return {
        "load": Stream(
            "in",
            (Field("bit", BIT), Field("last", BIT, doc="final bit")),
            doc="Bits of a new state, in the order of `serial`. `ready` is low only in the cycles of a replay or mark.",
        ),
        "scan": Stream(
            "out",
            (Field("bit", BIT),),
            follows="load",
            doc="Bit of the old state, which the shift register drops in the cycle of each transfer at `load`.",
        ),
    }


def load_words(bits: Integers) -> dict[str, Words]:
    """Words of `load` for the bits of a state; the last one is marked."""
    last = np.zeros(len(bits), np.int64)
    last[-1:] = 1
    return {"load": {"bit": bits[:, None], "last": last[:, None]}}


def rotate(by_generator: NDArray[np.int32], position: int, cycles: int) -> NDArray[np.int32]:
    """Rows of an array of rotating generators, (cycles, n): entry j of row t is generator ``(j + t) mod n`` at time t.

    `by_generator`, (period, n), has the numbers of each generator over its period; rows begin at `position`.
    """
    period, n = by_generator.shape
    twice = np.concatenate([by_generator, by_generator], axis=1)
    rows = np.empty((cycles, n), by_generator.dtype)
    start = 0
    while start < cycles:
        time = (position + start) % period
        stop = min(cycles, start + period - time)
        for offset in range(min(n, stop - start)):
            first = (position + start + offset) % n
            rows[start + offset : stop : n] = twice[time + offset : time + stop - start : n, first : first + n]
        start = stop
    return rows


def _signed(values: Integers, bits: int) -> Integers:
    sign = 1 << (bits - 1)
    return (values ^ sign) - sign
