"""Split of a zeroth-order step: a model cut in two parts, with perturbations of their own (FedSPZO, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

from ..errors import UserError
from ..memories.plan import MemoryShape
from .coefficient import COEFFICIENT
from .model import ModelWords
from .scalars import StepLayout

MOST_PERTURBATIONS = 16
"""Most perturbations of either part."""
MOST_SLOPES = 64
"""Most slopes of a step, whose coefficients a core keeps until all are there."""
COEFFICIENT_MEMORY = MemoryShape("coefficients", MOST_SLOPES, COEFFICIENT.width)
"""Memory of these coefficients."""
MOST_GAP = 63
"""Most words between two perturbations of the second part."""
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Split:
    """Cut of a model, and number of perturbations of both parts in a step.

    Parameters
    ----------
    cut : int
        Where the second part begins, of a network its first stage; 0 for a model that is not cut.
    first : int
        P1, perturbations of the first part; of a model that is not cut, of all of it.
    second : int
        P2, perturbations of the second part for each of the first; 1 without a cut.

    Raises
    ------
    UserError
        If a number is out of range.
    """

    cut: int = 0
    first: int = 1
    second: int = 1

    def __post_init__(self) -> None:
        for name, value in (("P1", self.first), ("P2", self.second)):
            if not 1 <= value <= MOST_PERTURBATIONS:
                raise UserError(f"{name} = {value} is not in 1 to {MOST_PERTURBATIONS}")
        if self.slopes > MOST_SLOPES:
            raise UserError(f"P1 x P2 = {self.slopes} slopes of a step: at most {MOST_SLOPES} are kept")
        if not self.cut and self.second > 1:
            raise UserError(f"P2 = {self.second} without a second part: give a cut, or P1 alone")

    @property
    def slopes(self) -> int:
        """Loss differences of a step, one for each pair of perturbations."""
        return self.first * self.second

    def steps(self, records: Sequence[_Record]) -> list[tuple[_Record, ...]]:
        """Group the records of consecutive steps, one for each slope, by step.

        Raises
        ------
        ValueError
            If the records are not those of whole steps.
        """
        return list(zip(*[iter(records)] * self.slopes, strict=True))

    def layout(self, model: ModelWords, period: int) -> StepLayout:
        """Positions of the perturbations of a step.

        A perturbation of the first part takes as many positions as it has rows of deltas. One of the second part takes
        as many more that those of one of the first and all that belong to it are coprime to the generator's period,
        where there is such a number: then all positions are taken before one returns.
        """
        *first, second = (len(part.rows) for part in model.parts(self.cut))
        spans = range(second, second + MOST_GAP + 1)
        chosen = next((one for one in spans if gcd(sum(first) + self.second * one, period) == 1), second)
        return StepLayout(self.first, self.second, (sum(first), chosen))


WHOLE = Split()
"""One perturbation of the whole network in a step."""
