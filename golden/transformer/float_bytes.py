"""Memory of tuning a transformer in floats, on paper: MeZO in float16, and back-propagation with Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .blocks import SelfAttention, Transformer
from .builder import INPUTS

_HALF = 2
_STATES = 14
"""Bytes a parameter beside its float16: gradient in float16, copy and both moments of Adam in float32."""


@dataclass(frozen=True)
class FloatBytes:
    """Bytes of a step in floats, without padding and what an allocator loses.

    Parameters
    ----------
    weights : int
        All parameters in float16.
    largest : int
        Activations that are needed at once in a forward pass, float16: what MeZO holds.
    kept : int
        Outputs of all operations, and attention's probabilities, float16: what back-propagation keeps.
    states : int
        Gradients, a copy in float32 and moments of Adam, of all parameters.
    """

    weights: int
    largest: int
    kept: int
    states: int

    @property
    def mezo(self) -> int:
        """Bytes of MeZO."""
        return self.weights + self.largest

    @property
    def backpropagation(self) -> int:
        """Bytes of back-propagation."""
        return self.weights + self.kept + self.states


def float_bytes(network: Transformer, embeddings: int, lengths: Sequence[int]) -> FloatBytes:
    """Count the bytes of a step on a batch.

    Parameters
    ----------
    network : Transformer
    embeddings : int
        Parameters before the network, tuned as the others.
    lengths : sequence of int
        Tokens of each sentence.
    """
    parameters = embeddings + sum(prod(shape) for shape in network.parameter_shapes.values())
    sizes = {INPUTS: network.features * sum(lengths)}
    probabilities = {}
    last = {INPUTS: -1}
    for number, (operation, reads) in enumerate(zip(network.operations, network.reads, strict=True)):
        features, pooled = network.shapes[number]
        sizes[number] = features * (len(lengths) if pooled else sum(lengths))
        if isinstance(operation, SelfAttention):
            probabilities[number] = operation.heads * sum(length**2 for length in lengths)
        last |= dict.fromkeys((*reads, number), number)
    largest = max(
        sum(sizes[value] for value in sizes if value <= number <= last[value]) + probabilities.get(number, 0)
        for number in range(len(network.operations))
    )
    kept = sum(sizes.values()) + sum(probabilities.values())
    return FloatBytes(_HALF * parameters, _HALF * largest, _HALF * kept, _STATES * parameters)
