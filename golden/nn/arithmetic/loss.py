"""Losses of a core: cross entropy of labels, or mean squared error of an autoencoder.

An autoencoder's target is the sample in Q8.16; its label in a sample schedule is 0.
"""

from __future__ import annotations

from typing import Literal

from ...errors import UserError
from ..softmax import LARGEST_SAMPLE

Loss = Literal["cross_entropy", "mse"]
LARGEST_OUTPUTS = 1 << 14
"""Most outputs of an autoencoder: the squared errors of both perturbation signs then fit 63 bits."""


def labels_of(loss: Loss, name: str, inputs: int, outputs: int) -> int:
    """Number of labels of a network, 1 for an autoencoder; `name` is the network's in messages.

    Raises
    ------
    UserError
        If there are more classes than an 8-bit label, or for ``mse`` unequal inputs and outputs, or too many outputs.
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
