"""`gaussian_array`: n Gaussian numbers per cycle from n `grng` generators, with load, mark and replay.

MeZO needs a number for each multiplier; PeZO repeats the numbers of 31 small generators. The array is the baseline of
the comparison and has the ports of `pezo`, so a core takes either.

All registers of all generators form one shift chain for loads. For mark and replay, `ring` generators at a time rotate
through a shift register with a copy of the state. A copy in flip-flops with a multiplexer for each bit would be thirty
times larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..block import Field, Spec, Stream, Words
from ..errors import UserError, check_range
from ..fixed import Integers
from .grng import NUMBER, WIDTHS, GrngSpec
from .pool import replay_ports, replayed, replayed_cycles
from .urng import state_ports

LONGEST_RING = 8
"""Largest number of generators of a ring: their 544 bits fill 17 LUTs of 32 bits each."""


@dataclass(frozen=True, kw_only=True)
class GaussianArraySpec(Spec):
    """Parameters and model of `gaussian_array`.

    Parameters
    ----------
    n : int
        Numbers a cycle, each from its own generator: 1 to 1024, PeZO's count for MeZO.
    form : "tree", "select" or "sum"
        Logic of a generator, see `grng`.
    seed : int
        Seed of the registers' phases, which differ between the generators; at least 0.
    """

    name: ClassVar[str] = "gaussian_array"
    summary: ClassVar[str] = "n Gaussian numbers per cycle, with load and replay: the baseline, for comparison only"

    n: int = 8
    form: Literal["tree", "select", "sum"] = "tree"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("n", self.n, 1, 1024)
        if self.seed < 0:
            raise UserError(f"seed = {self.seed} is negative")

    @cached_property
    def generators(self) -> tuple[GrngSpec, ...]:
        contents = self._contents(np.zeros(1, np.int64))
        return tuple(
            GrngSpec(form=self.form, seeds=tuple(int(register[0, j]) for register in contents)) for j in range(self.n)
        )

    @cached_property
    def phases(self) -> tuple[Integers, ...]:
        """For each register, its phases at position 0 in all generators, (n,); the sign's register is first.

        The phases of a register are a random permutation of all its phases. For larger n the permutation repeats, with
        another offset for each register, so no two generators share several registers. If both registers of a width
        have the same phase, the second takes the next one.
        """
        bits, number = np.random.PCG64(self.seed), np.arange(self.n)
        chosen: list[Integers] = []
        for level, lfsr in enumerate(_GRNG.lfsrs):
            order = np.argsort(bits.random_raw(lfsr.period), kind="stable")
            phases = order[(number + number // lfsr.period * level) % lfsr.period]
            if lfsr.bits in WIDTHS[:level]:
                phases = (phases + (phases == chosen[WIDTHS.index(lfsr.bits)])) % lfsr.period
            chosen.append(phases)
        return tuple(chosen)

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def state_bits(self) -> int:
        return self.n * sum(WIDTHS)

    @property
    def ring(self) -> int:
        """Generators that rotate together in a mark or a replay: the largest divisor of n up to 8."""
        return max(count for count in range(1, LONGEST_RING + 1) if self.n % count == 0)

    @property
    def replay_cycles(self) -> int:
        """Cycles without a word after a mark or a replay."""
        return self.ring * sum(WIDTHS)

    @property
    def can_replay(self) -> bool:
        return True

    def serial(self, position: int) -> Integers:
        """Bits that load a position, in order of transmission: the last generator's last register first.

        In the chain, the lowest bit of a register comes first.
        """
        contents = self._contents(np.array([position]))
        chain = [register[0, :, None] >> np.arange(bits) & 1 for register, bits in zip(contents, WIDTHS, strict=True)]
        sent: Integers = np.concatenate(chain, axis=1).reshape(-1)[::-1].astype(np.int64)
        return sent

    # -- as a source of perturbations --------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.n

    @property
    def fraction_bits(self) -> int:
        return _GRNG.fraction_bits

    @property
    def largest(self) -> int:
        return _GRNG.largest

    @property
    def period(self) -> int:
        """Cycles until all registers repeat, 5,643,118,635.

        A position has 32 bits: positions from `perturbation.POSITIONS`, 4,294,967,296, on cannot be addressed.
        """
        return _GRNG.period

    @property
    def sigma(self) -> float:
        return GrngSpec(form=self.form).sigma

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Numbers from a position on, as odd integers in 2**-6 sigma: (cycles, n)."""
        numbers = self._numbers(position + np.arange(cycles))
        return (2 * numbers + 1).astype(np.int32)

    def _contents(self, positions: Integers) -> list[NDArray[np.uint16]]:
        """Contents of each register at any positions, (len(positions), n) each, the sign's register first."""
        cycles = np.asarray(positions, np.int64)[:, None]
        return [
            states[cycles % (len(states) // 2) + phases] for states, phases in zip(_states(), self.phases, strict=True)
        ]

    def _numbers(self, positions: Integers) -> Integers:
        return np.asarray(GrngSpec(form=self.form).numbers_of(self._contents(positions)), np.int64)

    # -- the block ---------------------------------------------------------------------------------------------------

    @property
    def latency(self) -> int:
        """Cycles from reset to the first word: the array first stores a copy of its state."""
        return self.replay_cycles

    def streams(self) -> dict[str, Stream]:
        return {
            **state_ports(),
            "o": Stream(
                "out", (Field("number", NUMBER, self.n),), doc="Numbers: each integer y represents (2 y + 1) / 64."
            ),
            **replay_ports(),
        }

    def words_at(self, positions: Integers) -> Words:
        return {"number": self._numbers(positions)}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": self.words_at(replayed(inputs, words))}

    def cycles(self, inputs: dict[str, Words], words: int) -> int:
        """Cycles of `words` words: one per word, and `replay_cycles` for each mark or replay before the last word."""
        return replayed_cycles(inputs, words, self.replay_cycles)


_GRNG = GrngSpec()


@cache
def _states() -> tuple[NDArray[np.uint16], ...]:
    """Contents of each register by phase, for two periods, in XNOR form: the complement of `Lfsr`."""
    return tuple(np.tile(lfsr.period ^ lfsr.states, 2).astype(np.uint16) for lfsr in _GRNG.lfsrs)
