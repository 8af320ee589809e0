"""Steps of a client in integers: positions of perturbations, and coefficients.

A step uses P1 perturbations of the first part and, for each, P2 of the second. A perturbation of the first part takes s
positions, of the second t. Perturbation i of the first part is at ``p + i (s + P2 t)``; its perturbation j of the
second part is at ``p + i (s + P2 t) + s + j t``. The next step begins at ``p + P1 (s + P2 t)``.

The loss is evaluated on each side for every pair (i, j). The difference is the projected gradient along both
perturbations (FedSPZO, equations 5 and 6): the first part moves along i by the sum of c[i, j] over j, the second along
(i, j) by c[i, j]. Only c is sent, as signed bytes q with a common shift a step, c = q * 2**shift. The client moves by
these rounded values, too, so server and client agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UserError
from ..fixed import divided

LARGEST = 127
LARGEST_SHIFT = 24
"""Largest shift: every scalar then fits 32 bits."""
LARGEST_COUNT = 255

Moves = list[tuple[int, int]]
"""Position and coefficient of each move, the argument of `Periodic.accumulate`."""


@dataclass(frozen=True)
class Scalars:
    """Scalars of a step: an integer from -127 to 127 for each pair of perturbations, and a common shift, 0 to 24."""

    shift: int
    values: tuple[int, ...]

    @classmethod
    def of(cls, coefficients: Sequence[int]) -> Scalars:
        """Coefficients rounded, half to even, with the smallest shift that fits the largest.

        Raises `UserError` if no shift fits.
        """
        largest = max(map(abs, coefficients))
        shift = max(0, largest.bit_length() - 7)
        # 127.5 and more would be rounded to 128
        if shift and 2 * largest >= (2 * LARGEST + 1) << shift:
            shift += 1
        if shift > LARGEST_SHIFT:
            raise UserError(f"a step moves by {largest}, beyond {LARGEST << LARGEST_SHIFT}: lower the rate")
        return cls(shift, tuple(divided(np.array(coefficients, np.int64), 1 << shift).tolist()))

    @property
    def coefficients(self) -> tuple[int, ...]:
        return tuple(value << self.shift for value in self.values)


@dataclass(frozen=True)
class StepLayout:
    """Positions of a step's P1 (`first`) and P2 (`second`) perturbations.

    `spans` are the positions of a perturbation of the first and of the second part.
    """

    first: int
    second: int
    spans: tuple[int, int]

    @property
    def scalars(self) -> int:
        return self.first * self.second

    @property
    def span(self) -> int:
        return self.first * (self.spans[0] + self.second * self.spans[1])

    def positions(self, position: int) -> list[tuple[int, list[int]]]:
        """Position of each perturbation of the first part, and positions of its pairs in the second part."""
        ours, theirs = self.spans
        starts = [position + index * (ours + self.second * theirs) for index in range(self.first)]
        return [(start, [start + ours + index * theirs for index in range(self.second)]) for start in starts]

    def moves(self, position: int, steps: Iterable[Scalars]) -> tuple[Moves, Moves]:
        """Moves of both parts in consecutive steps from a position on."""
        first: Moves = []
        second: Moves = []
        for step in steps:
            coefficients = iter(step.coefficients)
            for start, others in self.positions(position):
                pairs = list(zip(others, coefficients, strict=False))
                second += pairs
                first.append((start, sum(coefficient for _, coefficient in pairs)))
            position += self.span
        return first, second
