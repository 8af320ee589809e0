"""Schedule of a zeroth-order run: number of steps and the samples of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ...errors import UserError
from ...fixed import Integers
from ..batches import batches
from ..metrics import refuse_diverged
from .optimiser import ZerothOrder


@dataclass(frozen=True)
class Schedule:
    """Steps and batches of a run.

    Parameters
    ----------
    steps : int
    batch : int
        Samples of a step; the last step of an epoch has the rest.
    seed : int
        Seed of the order of the samples.
    """

    steps: int = 500
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1")

    def indices(self, samples: int) -> Iterator[Integers]:
        """Indices of the samples of each step, out of `samples`."""
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
        Maps the indices of a step's samples to a closure that returns their loss.
    samples : int
        Number of samples.
    schedule : Schedule

    Yields
    ------
    float
        Loss of a step, see `ZerothOrder.step`.

    Raises
    ------
    UserError
        With the step's number, if `ZerothOrder.step` refuses it, as for a loss that is not finite, and leaves the
        parameters as before; or if its loss shows that the run has diverged, see `refuse_diverged`.
    """
    for number, indices in enumerate(schedule.indices(samples), start=1):
        where = f"fine-tuning diverged in step {number} of {schedule.steps}"
        try:
            loss = optimiser.step(closure_of(indices))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        rates = ", ".join(f"{group['lr']:g}" for group in optimiser.param_groups)
        refuse_diverged(loss, where, f"lower the rate {rates} or eps {optimiser.eps:g}")
        yield loss
