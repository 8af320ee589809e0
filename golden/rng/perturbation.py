"""Perturbations: assignment of a generator's numbers to weights, and positions in its sequence.

A source gives n numbers per cycle. A perturbation of d weights is read in tiles of L lanes: weight i is lane ``i mod
L`` of cycle ``i div L``, and lane j takes number ``j mod n`` of the cycle. A perturbation takes ``ceil(d / L)`` cycles;
the next one starts in the following cycle. The position of a perturbation is its first cycle.
"""

from __future__ import annotations

from math import gcd
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers

Number = TypeVar("Number", np.int32, np.int64)

POSITIONS = 1 << 32
"""Number of positions: registers, records and messages have 32 bits for a position."""


class PerturbationSource(Protocol):
    """Source of perturbations: a `FoldableSource`, or `GaussianArraySpec`."""

    @property
    def width(self) -> int:
        """Numbers a cycle, n."""

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of the integers of `draw`."""

    @property
    def largest(self) -> int:
        """Largest magnitude of the integers of `draw`."""

    @property
    def period(self) -> int:
        """Cycles until the sequence repeats; only positions below `POSITIONS` can be addressed."""

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Scaled numbers from a position on: (cycles, n)."""


@runtime_checkable
class FoldableSource(PerturbationSource, Protocol):
    """Source with short tables of perturbations and their sums: `ScaleSpec`, `PoolSpec`, `PezoSpec`."""

    @property
    def base(self) -> NDArray[np.int32]:
        """Numbers of one period before rotation: (times, n).

        Number j of cycle t is ``base[t mod times, (j + t) mod n]`` if the source rotates, else ``base[t mod times,
        j]``. A sum of shifts of the sequence has a base of the same shape.
        """

    @property
    def rotates(self) -> bool:
        """True if cycle t begins with number ``t mod n`` of its row."""


def check_full_rank(source: PerturbationSource, lanes: int) -> None:
    """Refuse a generator with numbers that return to the same lanes of a tile, or to every second, in each cycle.

    With a common factor, inputs of a layer take the same numbers in every cycle, and a layer's perturbation is a matrix
    without full rank: 24 of 384 with 32 numbers on tiles of 32 x 16. Raises `UserError` if a tile has more lanes than a
    cycle has numbers, and both have a common factor.
    """
    if source.width < lanes and (factor := gcd(source.width, lanes)) > 1:
        raise UserError(
            f"a generator of {source.width} numbers a cycle has the factor {factor} in common with the {lanes} "
            "parameters of a word: weights of different inputs would always move together; take an odd number, such as "
            "pool.p=33 with pool.size=16863"
        )


def cycles_of(weights: int, lanes: int) -> int:
    """Number of cycles of a perturbation of `weights` weights."""
    return -(-weights // lanes)


def draw_perturbation(source: PerturbationSource, position: int, weights: int, lanes: int) -> NDArray[np.int32]:
    """Perturbation, (weights,), at a position for tiles of `lanes`; ``source.fraction_bits`` fraction bits."""
    if position < 0 or weights < 0 or lanes < 1:
        raise UserError(f"no perturbation of {weights} weights in {lanes} lanes at position {position}")
    rows = source.draw(position, cycles_of(weights, lanes))
    return over_lanes(rows, lanes).reshape(-1)[:weights]


def over_lanes(rows: NDArray[Number], lanes: int) -> NDArray[Number]:
    """Numbers of each cycle, (cycles, n), distributed over the lanes of a tile: (cycles, lanes)."""
    cycles, n = rows.shape
    if lanes <= n:
        return rows[:, :lanes]
    whole = lanes // n
    tiles = np.empty((cycles, lanes), rows.dtype)
    tiles[:, : whole * n].reshape(cycles, whole, n)[:] = rows[:, None, :]
    tiles[:, whole * n :] = rows[:, : lanes - whole * n]
    return tiles


def walk(replay: Integers, mark: Integers, words: int) -> Integers:
    """Positions of the words of a source with `replay` and `mark` after reset: (words,).

    Parameters
    ----------
    replay, mark : array of int
        For each transfer 1 if the source returns to the mark after it; 1 if the next word becomes the mark. A replay
        does not change the mark. Missing entries are 0.
    words : int
        Number of words.
    """
    positions = np.empty(words, np.int64)
    position = start = 0
    for k in range(words):
        positions[k] = position
        position += 1
        if k < len(replay) and replay[k]:
            position = start
        elif k < len(mark) and mark[k]:
            start = position
    return positions
