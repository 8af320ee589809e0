"""Estimated memory of fine-tuning in floats: MeZO in float16, and back-propagation with Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .blocks import SelfAttention, Transformer
from .builder import INPUTS

_HALF = 2
_STATES = 14
"""Bytes a parameter besides float16: gradient in float16, copy and both Adam moments in float32."""


@dataclass(frozen=True)
class FloatBytes:
    """Bytes of a step in floats, without padding and allocator overhead.

    Parameters
    ----------
    weights : int
        All parameters in float16.
    largest : int
        Largest set of live activations of a forward pass in float16, as in MeZO.
    kept : int
        Outputs of all operations and attention probabilities in float16, as in back-propagation.
    states : int
        Gradients, float32 copies and Adam moments of all parameters.
    """

    weights: int
    largest: int
    kept: int
    states: int

    @property
    def mezo(self) -> int:
        return self.weights + self.largest

    @property
    def backpropagation(self) -> int:
        return self.weights + self.kept + self.states


def float_bytes(network: Transformer, embeddings: int, lengths: Sequence[int]) -> FloatBytes:
    """Bytes of a step on sentences of `lengths` tokens; `embeddings` parameters before the network are tuned, too."""
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
    stored = sum(sizes.values()) + sum(probabilities.values())
    return FloatBytes(_HALF * parameters, _HALF * largest, _HALF * stored, _STATES * parameters)
