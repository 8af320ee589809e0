"""Initial phases of n copies of one maximal register, such that states of the array at different times differ.

The sets of numbers at two times share as many numbers as there are pairs of phases with that difference. With equal
distances, all but one of the numbers recur after one distance. So the phases are chosen one by one such that no
difference is frequent; the result is nearly a cyclic difference set.
"""

from __future__ import annotations

import numpy as np

from ..fixed import Integers
from .lfsr import Lfsr

CANDIDATES = 64
"""Phases considered for each choice."""
APART = 2
"""Preferred least distance of two phases: at one step two numbers of a cycle correlate by -1/4, at two by -1/8."""


def spread(lfsr: Lfsr, n: int, turn: int = 0) -> Integers:
    """Choose the phases of n registers.

    Parameters
    ----------
    lfsr : Lfsr
        The register; candidates are tried in the order of its states, from phase 0 on.
    n : int
        Number of registers.
    turn : int
        Index of the first candidate; another one gives another choice.
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
    return np.array(chosen)
