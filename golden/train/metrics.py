"""Loss and accuracy of logits, in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..fixed import Integers

Logits = NDArray[np.float32] | NDArray[np.float64]


def cross_entropy(logits: Logits, labels: Integers) -> float:
    """Mean cross entropy in nats, computed in float64.

    Parameters
    ----------
    logits : array of float, (n, classes)
    labels : array of int, (n,)
    """
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - chosen))


def accuracy(logits: Logits, labels: Integers) -> float:
    """Fraction of samples whose largest logit is that of the label; the first one among equals.

    Parameters
    ----------
    logits : array of float, (n, classes)
    labels : array of int, (n,)
    """
    return float(np.mean(logits.argmax(axis=1) == labels))
