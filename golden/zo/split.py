"""Split of a zeroth-order step: a model cut in two, with perturbations for each part (FedSPZO, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

from ..errors import UserError, check_range
from ..memories.plan import MemoryShape
from .coefficient import COEFFICIENT
from .model import ModelWords
from .scalars import StepLayout

MOST_PERTURBATIONS = 16
"""Largest number of perturbations of either part."""
MOST_SLOPES = 64
"""Largest number of projected gradients of a step; a core stores their coefficients until the step's end."""
COEFFICIENT_MEMORY = MemoryShape("coefficients", MOST_SLOPES, COEFFICIENT.width)
"""Memory of a step's coefficients."""
MOST_GAP = 63
"""Largest gap, in words, between two perturbations of the second part."""
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Split:
    """Cut of a model, and number of perturbations of both parts in a step.

    Raises `UserError` if a number is out of range.

    Parameters
    ----------
    cut : int
        Start of the second part, for a network its first stage; 0 without a cut.
    first : int
        P1, perturbations of the first part, or of the uncut model.
    second : int
        P2, perturbations of the second part for each of the first; 1 without a cut.
    """

    cut: int = 0
    first: int = 1
    second: int = 1

    def __post_init__(self) -> None:
        for name, value in (("P1", self.first), ("P2", self.second)):
            check_range(name, value, 1, MOST_PERTURBATIONS)
        if self.slopes > MOST_SLOPES:
            raise UserError(f"P1 x P2 = {self.slopes} slopes of a step: at most {MOST_SLOPES} are kept")
        if not self.cut and self.second > 1:
            raise UserError(f"P2 = {self.second} without a second part: give a cut, or P1 alone")

    @property
    def slopes(self) -> int:
        """Projected gradients of a step, one for each pair of perturbations."""
        return self.first * self.second

    def steps(self, records: Sequence[_Record]) -> list[tuple[_Record, ...]]:
        """Records of consecutive steps, one for each projected gradient, grouped by step.

        Raises `ValueError` if the last step is incomplete.
        """
        return list(zip(*[iter(records)] * self.slopes, strict=True))

    def layout(self, model: ModelWords, period: int) -> StepLayout:
        """Positions of a step's perturbations.

        A perturbation of the first part takes a position for each of its rows of deltas. For the second part positions
        are added until the total of a first-part perturbation and its pairs is coprime to the generator's period, if
        possible: then all positions occur before one returns.
        """
        *first, second = (len(part.rows) for part in model.parts(self.cut))
        spans = range(second, second + MOST_GAP + 1)
        chosen = next((span for span in spans if gcd(sum(first) + self.second * span, period) == 1), second)
        return StepLayout(self.first, self.second, (sum(first), chosen))


WHOLE = Split()
"""One perturbation of the whole network a step."""
