"""Last layer's own weights and biases, tuned as adapters: A is what is added to them, and B, which stays, selects.

Rank j of adapter k is class k * rank + j: its h is added to that logit alone, and the gradient at it is the logit's
own, both exactly. An adapter reads what the last layer reads, then a constant 1, whose part of A is added to the
biases; or the constant alone. Logits are rounded twice, the frozen layer's and h; a layer with the sum of both as its
weights rounds once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..fixed import Q4_12, Q8_16, Integers
from ..models.stages import Stage
from .adapters import Adapters, AdapterSizes

Tuned = Literal["layer", "biases"]
"""Weights and biases of the last layer, or its biases alone."""


def last_layer_sizes(last: Stage, tuned: Tuned, rank: int) -> AdapterSizes:
    """Sizes of the adapters that tune the last layer, which is fully connected in every network."""
    inputs = 1 if tuned == "biases" else last.inputs + 1
    return AdapterSizes((inputs,) * -(-last.biases // rank), last.biases, rank, selects=True)


def untuned_layer(sizes: AdapterSizes) -> Adapters:
    """Make the adapters at the start: nothing is added."""
    adapters = Adapters(sizes, np.zeros(sizes.parameters, np.int64))
    adapters.b[:] = np.eye(*adapters.b.shape, dtype=np.int64) << Q4_12.fraction
    return adapters


def adapter_input(values: Integers, sizes: AdapterSizes) -> Integers:
    """Input of each adapter, (n, inputs) in Q8.16, from that of the last layer."""
    ones = np.full((len(values), 1), 1 << Q8_16.fraction, np.int64)
    return ones if sizes.inputs[0] == 1 else np.concatenate([values, ones], axis=1)


def added(adapters: Adapters) -> tuple[Integers, Integers]:
    """Split A into what is added to the weights, (classes, inputs or 0), and to the biases, (classes,), in Q4.12."""
    own = np.concatenate([a.T for a in adapters.a])[: adapters.shape.classes]
    return own[:, :-1], own[:, -1]
