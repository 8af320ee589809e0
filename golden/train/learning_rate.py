"""Learning rates: what is refused, and schedules, a factor of the rate for each batch."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

SCHEDULES = ("constant", "linear", "cosine", "step:EPOCHS", "step:EPOCHS:FACTOR")
"""Schedules that `rate_factors` reads; FACTOR is 0.1 by default."""


def refuse_rate(rate: float, what: str = "rate") -> None:
    """Refuse a learning rate that is not above 0 or not finite: a `UserError`, which calls it ``what``."""
    if not 0 < rate < inf:
        raise UserError(f"{what} = {rate}: a learning rate is above 0")


def rate_factors(schedule: str, epochs: int, batches: int) -> NDArray[np.float64]:
    """Factor of the learning rate for each batch, (epochs * batches,).

    ``linear`` falls from 1 to 0, ``cosine`` falls by half a period; the first batch after the run would have 0.
    ``step:N:F`` multiplies by F after each N epochs. `batches` is the number per epoch.

    Raises
    ------
    UserError
        If the schedule is unknown or a number is out of range.
    """
    count = epochs * batches
    done = np.arange(count) / max(count, 1)
    name, *numbers = schedule.split(":")
    if name == "step" and numbers:
        length, factor = _step(schedule, numbers)
        return factor ** (np.arange(count) // (length * batches)).astype(np.float64)
    shapes = {"constant": np.ones(count), "linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2}
    if numbers or name not in shapes:
        raise UserError(f"there is no schedule {schedule!r}; there are: {', '.join(SCHEDULES)}")
    return shapes[name]


def _step(schedule: str, numbers: list[str]) -> tuple[int, float]:
    try:
        length, factor = int(numbers[0]), float(numbers[1]) if len(numbers) == 2 else 0.1
    except ValueError:
        length, factor = 0, 0.0
    if len(numbers) > 2 or length < 1 or not 0 < factor <= 1:
        raise UserError(
            f"schedule {schedule!r}: give step:EPOCHS:FACTOR, 1 epoch or more and a factor above 0, at most 1"
        )
    return length, factor
