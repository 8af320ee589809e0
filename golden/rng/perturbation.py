"""How numbers reach weights, and where in the joint sequence they come from.

This is the one place that says it. A source gives n numbers a cycle. A perturbation of d weights is read tile
by tile, L lanes wide: weight i is lane ``i mod L`` of cycle ``i div L``, and lane j of a tile takes number
``j mod n`` of that cycle. It takes ``ceil(d / L)`` cycles; the next one starts in the cycle after its last,
wherever that is in the sequence. A perturbation's name is the position, in cycles, at which it starts.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers

Number = TypeVar("Number", np.int32, np.int64)


class Source(Protocol):
    """What draws perturbations: `ScaleSpec`, `PoolSpec`, `PezoSpec`."""

    @property
    def width(self) -> int:
        """Numbers a cycle, n."""

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of the integers that `draw` gives."""

    @property
    def period(self) -> int:
        """Cycles after which the sequence repeats."""

    @property
    def base(self) -> NDArray[np.int32]:
        """What the sequence is made of: (times, n).

        Number j of cycle t is ``base[t mod times, (j + t) mod n]`` where the source rotates, else
        ``base[t mod times, j]``. A sum of shifts of the sequence has a base of the same shape.
        """

    @property
    def rotates(self) -> bool:
        """Whether cycle t begins with number ``t mod n`` of its row."""

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        """Scaled numbers from a position on: (cycles, n)."""


def cycles_of(weights: int, lanes: int) -> int:
    """Cycles that a perturbation of so many weights takes."""
    return -(-weights // lanes)


def draw_perturbation(source: Source, position: int, weights: int, lanes: int) -> NDArray[np.int32]:
    """The perturbation that starts at a position.

    Parameters
    ----------
    source : Source
        Where the numbers come from.
    position : int
        Cycle of the joint sequence; any, in constant time.
    weights : int
        Length of the perturbation.
    lanes : int
        Width of a tile.

    Returns
    -------
    array (weights,) of int32 with ``source.fraction_bits`` fraction bits
    """
    if position < 0 or weights < 0 or lanes < 1:
        raise UserError(f"no perturbation of {weights} weights in {lanes} lanes at position {position}")
    rows = source.draw(position, cycles_of(weights, lanes))
    return over_lanes(rows, lanes).reshape(-1)[:weights]


def over_lanes(rows: NDArray[Number], lanes: int) -> NDArray[Number]:
    """Numbers of each cycle, (cycles, n), over the lanes of a tile: (cycles, lanes)."""
    cycles, n = rows.shape
    if lanes <= n:
        return rows[:, :lanes]
    whole = lanes // n
    tiles = np.empty((cycles, lanes), rows.dtype)
    tiles[:, : whole * n].reshape(cycles, whole, n)[:] = rows[:, None, :]
    tiles[:, whole * n :] = rows[:, : lanes - whole * n]
    return tiles


def walk(replay: Integers, mark: Integers, words: int) -> Integers:
    """Positions of the words that a source with `replay` and `mark` gives after reset.

    Parameters
    ----------
    replay, mark : array of int
        For each transfer, whether the source goes back to the mark after it, and whether the word after it becomes
        the mark. A replay leaves the mark alone. Missing entries are 0.
    words : int
        How many words.
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
