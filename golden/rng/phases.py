"""Where n copies of one maximal register start, so that no two moments of the array resemble each other.

The set of numbers at a time is that of another time as far as differences of phases recur: equal distances, the obvious
choice, bring back all but one of the numbers after one distance. So the phases are chosen one by one such that no
difference comes often, nearly a cyclic difference set.
"""

from __future__ import annotations

import numpy as np

from ..fixed import Integers
from .lfsr import Lfsr

CANDIDATES = 64
"""Phases looked at for each choice."""
APART = 2
"""Steps that two phases keep where they can: at one step two numbers of a cycle correlate by -1/4, at two by -1/8."""


def spread(lfsr: Lfsr, n: int, turn: int = 0) -> Integers:
    """Phases of n registers.

    Parameters
    ----------
    lfsr : Lfsr
        The register; candidates come in the order of its states, from phase 0 on.
    n : int
        How many.
    turn : int
        Where in that order to begin; another one gives another choice.
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
