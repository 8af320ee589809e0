"""Maximal-length linear feedback shift registers, and initial phases of their copies.

A register of b bits steps as ``x = (x << 1 | feedback) mod 2**b``; the feedback is the exclusive or of the tapped bits,
and tap t is bit t - 1. The state is never zero, and 2**b - 1 steps visit every nonzero value once.

The initial phases of n copies keep the array's sets of numbers at different times different. The sets at two times
share a number for each pair of phases whose difference is the time between them. With equal distances all numbers but
one would recur after this distance. So phases are chosen one after another to keep every difference rare: nearly a
cyclic difference set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import gcd

import numpy as np

from ..errors import UserError
from ..fixed import Integers

TAPS: dict[int, tuple[int, ...]] = {
    2: (2, 1),
    3: (3, 2),
    4: (4, 3),
    5: (5, 3),
    6: (6, 5),
    7: (7, 6),
    8: (8, 6, 5, 4),
    9: (9, 5),
    10: (10, 7),
    11: (11, 9),
    12: (12, 6, 4, 1),
    13: (13, 4, 3, 1),
    14: (14, 5, 3, 1),
    15: (15, 14),
    16: (16, 15, 13, 4),
    17: (17, 14),
    18: (18, 11),
    19: (19, 6, 2, 1),
    20: (20, 17),
}
"""Taps of a maximal register of each width (Xilinx XAPP052, table 3): at most four, so that two inputs of one LUT6
remain for a serial load."""


@dataclass(frozen=True)
class Lfsr:
    """Linear feedback shift register of 2 to 20 bits; taps count from 1, by default `TAPS`.

    Raises `UserError` if the taps do not give the full period.
    """

    bits: int
    taps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.bits not in TAPS:
            raise UserError(f"a generator has 2 to 20 bits, not {self.bits}")
        if not self.taps:
            object.__setattr__(self, "taps", TAPS[self.bits])
        if not all(1 <= tap <= self.bits for tap in self.taps):
            raise UserError(f"taps {self.taps} are not in 1 to {self.bits}")
        if len(_orbit(self.bits, self.taps)) != self.period:
            raise UserError(
                f"taps {self.taps} do not give a maximal sequence of {self.bits} bits: try {TAPS[self.bits]}"
            )

    @property
    def period(self) -> int:
        """Number of states, ``2**bits - 1``."""
        return (1 << self.bits) - 1

    @cached_property
    def states(self) -> Integers:
        """States in order, from state 1 at phase 0: (period,)."""
        return _orbit(self.bits, self.taps)

    @cached_property
    def phases(self) -> Integers:
        """Phase of each state, the inverse of `states`: (period + 1,); entry 0 is unused."""
        phases = np.zeros(self.period + 1, np.int64)
        phases[self.states] = np.arange(self.period)
        return phases

    def transition(self, steps: int = 1) -> list[int]:
        """Rows of the transition matrix: after `steps` steps, bit k is the parity of ``x & transition[k]``."""
        rows = [1 << k for k in range(self.bits)]
        for _ in range(steps):
            feedback = 0
            for tap in self.taps:
                feedback ^= rows[tap - 1]
            rows = [feedback, *rows[:-1]]
        return rows

    def check_leap(self, leap: int) -> None:
        """Refuse a `leap`, in steps a cycle, that misses some states.

        Raises `UserError` if the leap is out of range or shares a factor with the period.
        """
        if not 1 <= leap <= self.bits:
            raise UserError(f"a leap of {leap} is not in 1 to {self.bits} (the width): choose another")
        if gcd(leap, self.period) > 1:
            good = [k for k in range(1, self.bits + 1) if gcd(k, self.period) == 1]
            raise UserError(
                f"a leap of {leap} is not maximal: it shares the factor {gcd(leap, self.period)} with the period "
                f"{self.period}, so some states would never occur; choose one of {good}"
            )


def shifted_in(value: int, bits: int) -> Integers:
    """Bits that load a value into a register through its lowest bit, in order of transmission."""
    return np.array([value >> k & 1 for k in reversed(range(bits))], np.int64)


@lru_cache
def _orbit(bits: int, taps: tuple[int, ...]) -> Integers:
    mask, state, states = (1 << bits) - 1, 1, []
    picked = sum(1 << (tap - 1) for tap in taps)
    while True:
        states.append(state)
        state = (state << 1 | (state & picked).bit_count() & 1) & mask
        if state in (0, 1) or len(states) > mask:
            break
    orbit = np.array(states, np.int64)
    orbit.flags.writeable = False
    return orbit


CANDIDATES = 64
"""Candidate phases for each choice."""
APART = 2
"""Preferred least distance of two phases: at one step two numbers of a cycle correlate by -1/4, at two by -1/8."""


@cache
def spread(lfsr: Lfsr, n: int, turn: int = 0) -> Integers:
    """Phases of n registers, (n,), read-only and cached.

    Candidates are tried in the order of the register's states, from index `turn` on; another index gives other choices.
    """
    period = lfsr.period
    candidates = np.roll(lfsr.states - 1, -turn)
    chosen = [int(candidates[0])]
    seen = np.zeros(period, np.int64)
    position = 1
    while len(chosen) < n:
        free = np.roll(candidates, -position)
        free = free[~np.isin(free, chosen)][:CANDIDATES]
        position += CANDIDATES
        gaps = (free[:, None] - np.array(chosen)) % period
        near = np.minimum(gaps, period - gaps) < APART
        again = seen[gaps] + 1
        best = int(np.lexsort(((again**2).sum(axis=1), again.max(axis=1), near.sum(axis=1)))[0])
        chosen.append(int(free[best]))
        np.add.at(seen, np.concatenate([gaps[best], period - gaps[best]]), 1)
    phases = np.array(chosen)
    phases.flags.writeable = False
    return phases
