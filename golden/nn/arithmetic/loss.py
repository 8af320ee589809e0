"""Losses that a core trains for: the cross entropy of labels, or the mean squared error of an autoencoder.

An autoencoder's target is the sample itself: the values that the network reads, in Q8.16. It has no labels; where an
order list has one, it is 0.
"""

from __future__ import annotations

from typing import Literal

from ...errors import UserError
from ..softmax import LARGEST_SAMPLE

Loss = Literal["cross_entropy", "mse"]
"""Names of the losses."""
LARGEST_OUTPUTS = 1 << 14
"""Most outputs of an autoencoder: the sum of both sides' squared errors then fits 63 bits."""


def labels_of(loss: Loss, name: str, inputs: int, outputs: int) -> int:
    """Count the labels that a sample of a network can have: 1, of an autoencoder.

    Parameters
    ----------
    loss : str
    name : str
        Name of the network, for messages.
    inputs, outputs : int
        Values of a sample, and of its outputs.

    Raises
    ------
    UserError
        If the network has more classes than a label's eight bits tell apart, or, with the mean squared error, other
        outputs than inputs, or too many of them.
    """
    if loss == "cross_entropy":
        if outputs > LARGEST_SAMPLE:
            raise UserError(f"{name} has {outputs} classes; the core takes at most {LARGEST_SAMPLE}")
        return outputs
    if outputs != inputs:
        raise UserError(f"loss = mse: {name} has {outputs} outputs for {inputs} inputs; an autoencoder has as many")
    if outputs > LARGEST_OUTPUTS:
        raise UserError(f"loss = mse: {name} has {outputs} outputs; the core takes at most {LARGEST_OUTPUTS}")
    return 1
