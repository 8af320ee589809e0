"""Many steps: batches in turn, and what was seen on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ...errors import UserError
from ...fixed import Integers
from ..batches import batches
from .optimiser import ZerothOrder


@dataclass(frozen=True)
class Schedule:
    """How long, and on what.

    Parameters
    ----------
    steps : int
    batch : int
        Samples of a step; the last of an epoch has what is left.
    seed : int
        Of the samples' order.
    """

    steps: int = 500
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1")

    def indices(self, samples: int) -> Iterator[Integers]:
        """The samples of each step."""
        rng = np.random.default_rng([self.seed, 2])
        left = self.steps
        while left > 0:
            epoch = batches(samples, self.batch, rng)[:left]
            left -= len(epoch)
            yield from epoch


def descend(
    optimiser: ZerothOrder,
    closure_of: Callable[[Integers], Callable[[], float | Tensor]],
    samples: int,
    schedule: Schedule,
) -> Iterator[float]:
    """Take the steps of a schedule.

    Parameters
    ----------
    optimiser : ZerothOrder
    closure_of : callable
        From the indices of a step's samples to the closure that gives their loss.
    samples : int
        How many there are.
    schedule : Schedule

    Yields
    ------
    float
        The loss that a step saw.

    Raises
    ------
    UserError
        If a loss is no number; the parameters are then where they were before that step.
    """
    for indices in schedule.indices(samples):
        yield optimiser.step(closure_of(indices))
