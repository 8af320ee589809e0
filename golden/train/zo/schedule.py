"""Schedule of a zeroth-order run: number of steps and samples of each step."""

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
    """Steps and batches of a run; the last step of an epoch takes the remainder. `seed` decides the sample order.

    Raises
    ------
    UserError
        If steps or batch are below 1.
    """

    steps: int = 500
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} = {getattr(self, name)}: at least 1")

    def indices(self, samples: int) -> Iterator[Integers]:
        rng = np.random.default_rng([self.seed, 2])
        remaining = self.steps
        while remaining > 0:
            epoch = batches(samples, self.batch, rng)[:remaining]
            remaining -= len(epoch)
            yield from epoch


def descend(
    optimiser: ZerothOrder,
    closure_of: Callable[[Integers], Callable[[], float | Tensor]],
    samples: int,
    schedule: Schedule,
) -> Iterator[float]:
    """Take the steps of a schedule and yield the loss of each, see `ZerothOrder.step`.

    `closure_of` maps the sample indices of a step to a closure that returns their loss.

    Raises
    ------
    UserError
        With the step's number. Either `ZerothOrder.step` refuses the step, as for a loss that is not finite, and the
        parameters stay as before. Or the loss shows that the run has diverged, see `refuse_diverged`.
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
