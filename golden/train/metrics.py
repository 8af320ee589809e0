"""Losses and accuracy of logits, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Integers

Logits = NDArray[np.float32] | NDArray[np.float64]


LARGEST_LOSS = 1000.0
"""Mean cross entropy above which a run has diverged, far from any that is still of use: guessing among n classes costs
ln n, and the hardware's logits, Q8.16, differ by less than 256."""


class DivergedError(UserError):
    """Error of a run that has diverged.

    Parameters
    ----------
    happened, remedy : str
        Run, place and loss; what to do.
    """

    def __init__(self, happened: str, remedy: str) -> None:
        super().__init__(f"{happened}; {remedy}")
        self.happened = happened


def refuse_diverged(loss: float, what: str, remedy: str) -> None:
    """Refuse the loss of a run that has diverged.

    Parameters
    ----------
    loss : float
        Mean cross entropy.
    what, remedy : str
        Run and place, ``fine-tuning diverged in step 3``; what to do, ``lower the rate``.

    Raises
    ------
    DivergedError
        If the loss is not finite or above `LARGEST_LOSS`.
    """
    if not loss <= LARGEST_LOSS:
        raise DivergedError(f"{what}: the loss is {loss:.4g}", remedy)


def cross_entropy(logits: Logits, labels: Integers) -> float:
    """Mean cross entropy in nats, computed in float64; NaN where a logit is not finite.

    Parameters
    ----------
    logits : array of float, (n, classes)
    labels : array of int, (n,)
    """
    with np.errstate(invalid="ignore"):  # infinity less infinity: logits of a run that has diverged
        shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - chosen))


def mean_squared_error(outputs: Logits, samples: Logits) -> float:
    """Mean squared error of an autoencoder's outputs, over all values of all samples.

    Parameters
    ----------
    outputs : array of float, (n, values)
    samples : array of float, (n, *shape)
    """
    return float(np.mean(np.square(outputs - samples.reshape(outputs.shape))))


def accuracy(logits: Logits, labels: Integers) -> float:
    """Fraction of samples whose largest logit is that of the label; the first one among equals.

    Parameters
    ----------
    logits : array of float, (n, classes)
    labels : array of int, (n,)
    """
    return float(np.mean(logits.argmax(axis=1) == labels))
