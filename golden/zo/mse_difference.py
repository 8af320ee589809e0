"""`mse_difference`: difference of a sample's mean squared errors on both sides of a perturbation, and their mean.

A side's loss is half the sum of ``(logit - target)**2`` divided by 2**k, the number of outputs rounded up to a power of
two. Its gradient along a logit is then ``(logit - target) / 2**k``. The sums of both sides are exact; their difference
and their mean are rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, packets_of
from ..errors import UserError, check_range
from ..fixed import Q8_16, Format, Integers, narrow
from ..nn.arithmetic.loss import LARGEST_OUTPUTS
from ..rng.urng import BIT
from .loss_difference import DIFFERENCE

ERROR = Format(16, 16, signed=False)
"""Format of a mean squared error; holds any error of Q8.16."""


def size_bits(outputs: int) -> int:
    """k: the number of outputs, rounded up to a power of two, is 2**k."""
    return (outputs - 1).bit_length()


def mean_squared_error(errors: Integers, outputs: int) -> float:
    """Mean squared error of all outputs, from words of `ERROR`."""
    return float(ERROR.to_float(errors).mean()) * (1 << size_bits(outputs)) / outputs


def rate_scale(outputs: int) -> float:
    """Factor from a learning rate for PyTorch's mean squared error to a rate for a side's loss."""
    return (2 << size_bits(outputs)) / outputs


def mse_differences(plus: Integers, minus: Integers) -> tuple[Integers, Integers]:
    """Loss differences of samples, and their errors.

    Parameters
    ----------
    plus, minus : array of int, (samples, outputs)
        Logit minus target of either side, 16 fraction bits.

    Returns
    -------
    array of int64, (samples,)
        Plus side's loss minus the minus side's, in `loss_difference.DIFFERENCE`, saturated.
    array of int64, (samples,)
        Mean of both sides' squared errors, the sum of their losses, in `ERROR`.
    """
    sums = [np.square(side).sum(axis=1) for side in (plus, minus)]
    fraction = 2 * Q8_16.fraction + 1 + size_bits(plus.shape[1])
    return narrow(sums[0] - sums[1], fraction, DIFFERENCE), narrow(sums[0] + sums[1], fraction, ERROR)


@dataclass(frozen=True, kw_only=True)
class MseDifferenceSpec(Spec):
    """Parameters and model of `mse_difference`.

    Parameters
    ----------
    outputs : int
        Outputs of every sample, 1 to 16384: the sum of their squares fits 63 bits.
    """

    name: ClassVar[str] = "mse_difference"
    summary: ClassVar[str] = "difference of two mean squared errors, from the outputs on both sides of a perturbation"

    outputs: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("outputs", self.outputs, 1, LARGEST_OUTPUTS)

    @property
    def latency(self) -> int:
        """Cycles from a pair's last logit to its word: subtraction, square 2, sum, rounding 3."""
        return 7

    @property
    def period(self) -> int:
        """Cycles between pairs in a steady stream: a pair begins when the previous pair's word has been taken."""
        return 2 * self.outputs + self.latency

    def streams(self) -> dict[str, Stream]:
        return {
            "i": Stream(
                "in",
                (Field("logit", Q8_16), Field("last", BIT)),
                doc="Logits of a sample's plus side, `last` with the final one, then as many of its minus side. A "
                "logit waits for its target, and while a pair's word is made or on offer.",
            ),
            "target": Stream("in", (Field("target", Q8_16),), doc="What each logit should be; taken with it."),
            "o": Stream(
                "out",
                (
                    Field("difference", DIFFERENCE, doc="loss of the plus side less that of the minus side"),
                    Field(
                        "error", ERROR, doc="mean of both sides' mean squared errors, which is the sum of their losses"
                    ),
                ),
                doc="Difference of the losses, and mean of both sides' squared errors; one word a pair.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Words of all complete pairs.

        Raises `UserError` if a side does not have `outputs` logits.
        """
        sides = packets_of(inputs["i"]["last"])
        if wrong := [end - start for start, end in sides if end - start != self.outputs]:
            raise UserError(f"a side of {wrong[0]} logits; here all have {self.outputs}")
        logits, targets = inputs["i"]["logit"][:, 0], inputs["target"]["target"][:, 0]
        pair = 2 * self.outputs
        whole = min(len(logits), len(targets)) // pair * pair
        errors = (logits[:whole] - targets[:whole]).reshape(-1, 2, self.outputs)
        difference, error = mse_differences(errors[:, 0], errors[:, 1])
        return {"o": {"difference": difference[:words, None], "error": error[:words, None]}}
