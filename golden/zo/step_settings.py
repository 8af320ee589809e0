"""Settings of a zeroth-order step for the integer job, a core and its host; learning rates as words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import UserError, check_range
from ..nn.arithmetic.loss import Loss
from .coefficient import LARGEST_SHIFT, RATE
from .deltas import DELTA, PerturbationTable
from .loss_difference import DIFFERENCE_FRACTION
from .split import WHOLE, Split

EPS_SHIFTS = range(4, 13)
"""Shifts of eps: the perturbation is far above a last place of Q4.12, and far below 1."""


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings common to all steps of a job; each step has its own rate.

    Raises `UserError` if a setting is out of range.

    Parameters
    ----------
    eps_shift : int
        ``eps = 2**-eps_shift``, 4 to 12.
    shift : int
        Right shift of loss difference times rate, see `with_rates`.
    scalars : bool
        If true, round a step's coefficients to the bytes of a message, see `scalars.Scalars`.
    loss : str
        See `nn.arithmetic.loss`.
    """

    eps_shift: int = 10
    shift: int = 0
    split: Split = WHOLE
    scalars: bool = False
    loss: Loss = "cross_entropy"

    def __post_init__(self) -> None:
        if self.eps_shift not in EPS_SHIFTS:
            raise UserError(f"eps_shift = {self.eps_shift} is not in {EPS_SHIFTS[0]} to {EPS_SHIFTS[-1]}")
        check_range("shift", self.shift, 0, LARGEST_SHIFT)

    def with_rates(
        self, rates: Sequence[float], batches: Sequence[int], perturbation: PerturbationTable
    ) -> tuple[list[int], StepSettings]:
        """Words, in `RATE`, of learning rates of mean losses; and settings with the largest shift that fits all.

        Rates are at least 0; `batches` are the samples of each step. ``c = - rate * dL / (2 eps batch slopes)`` in
        units of ``2**(fraction - 28)``. Raises `UserError` if a rate is negative, or all are 0 or too small or large
        for any shift.
        """
        if not len(rates) or min(rates) < 0 or not np.isfinite(rates).all():
            raise UserError(f"learning rates of {min(rates, default=0):g} to {max(rates, default=0):g}: give 0 or more")
        exponent = DELTA.fraction - perturbation.fraction + self.eps_shift - 1 - DIFFERENCE_FRACTION
        sizes = [batch * self.split.slopes for batch in batches]
        exact = [np.ldexp(rate / size, exponent) for rate, size in zip(rates, sizes, strict=True)]
        shift = RATE.width - int(np.frexp(max(exact))[1])
        if np.rint(np.ldexp(max(exact), shift)) > RATE.maximum:
            shift -= 1
        if not max(exact) or not 0 <= shift <= LARGEST_SHIFT:
            raise UserError(
                f"a learning rate of {max(rates):g} is no 16-bit number with a shift of 0 to {LARGEST_SHIFT}"
            )
        return [int(np.rint(np.ldexp(rate_word, shift))) for rate_word in exact], replace(self, shift=shift)
