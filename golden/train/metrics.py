"""Losses and accuracy of logits, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers

Logits = NDArray[np.float32] | NDArray[np.float64]


LARGEST_LOSS = 1000.0
"""Mean cross entropy above which a run counts as diverged.

Guessing among n classes costs only ln n, and the hardware's logits in Q8.16 differ by less than 256.
"""


class DivergedError(UserError):
    """Error of a diverged run: `happened` tells run, step and loss, `remedy` advises the user."""

    def __init__(self, happened: str, remedy: str) -> None:
        super().__init__(f"{happened}; {remedy}")
        self.happened = happened


def refuse_diverged(loss: float, what: str, remedy: str) -> None:
    """Refuse a run with a diverged mean cross entropy.

    `what` tells run and step, as ``fine-tuning diverged in step 3``; `remedy` is advice, as ``lower the rate``.

    Raises
    ------
    DivergedError
        If the loss is not finite or above `LARGEST_LOSS`.
    """
    if not loss <= LARGEST_LOSS:
        raise DivergedError(f"{what}: the loss is {loss:.4g}", remedy)


def cross_entropy(logits: Logits, labels: Integers) -> float:
    """Mean cross entropy in nats, computed in float64; NaN where a logit is not finite.

    Logits are (n, classes), labels (n,).
    """
    with np.errstate(invalid="ignore"):  # a diverged run has infinite logits: inf - inf
        shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - chosen))


def mean_squared_error(outputs: Logits, samples: Logits) -> float:
    r"""Mean squared error of an autoencoder over all values of all samples.

    Outputs are (n, values), samples (n, \*shape).
    """
    return float(np.mean(np.square(outputs - samples.reshape(outputs.shape))))


def accuracy(logits: Logits, labels: Integers) -> float:
    """Fraction of samples with the largest logit at the label; among equal logits the first counts.

    Logits are (n, classes), labels (n,).
    """
    return float(np.mean(logits.argmax(axis=1) == labels))
