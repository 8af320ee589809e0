"""Jobs whose gradients, and then updated parameters, lie half-way between two numbers."""

from __future__ import annotations

import numpy as np

from ....golden.fixed import Q4_12, Q8_16
from ....golden.lora.adapters import BATCH_GRADIENT, NOISE_BITS, Adapters, AdapterSizes
from ....golden.models.network import Network
from ....golden.nn.arithmetic.forward import PRODUCT_FRACTION, StageIntegers
from ....golden.nn.arithmetic.random_parameters import random_parameters

_RATE_BITS = 16
RATE = 1 << _RATE_BITS
"""Learning rate of the jobs with ties."""
WINNER = 0
"""Class with probability 1; the labels are other classes."""
_GRADIENT_BITS = PRODUCT_FRACTION - BATCH_GRADIENT.fraction
"""Number of bits dropped from a gradient's sum."""
_STEP_BITS = NOISE_BITS - _RATE_BITS
"""Number of bits of a rounded gradient that an updated parameter drops; lower bits are 0 at this rate."""
_SUM = (1 << _GRADIENT_BITS - 1) + (1 << _GRADIENT_BITS + _STEP_BITS - 1)
"""Sum that is rounded down, to even, and then is half a unit of a parameter; with one bit more it is rounded up."""
_CONSTANT = (1 << _GRADIENT_BITS + _STEP_BITS) - _SUM
"""Activation, in Q8.16, whose product with a gradient of -1 is this sum, up to multiples of a parameter's unit."""
_GRAIN = 1 << _STEP_BITS + 1
"""Gradients that are 1 less than a multiple of this have such products too."""
_BIAS = Q8_16.fraction - Q4_12.fraction
_LEAD = 15 << Q4_12.fraction - 1
"""Bias of the winner; all others have the negated bias. The distance is 15, whose exponential is 0."""


def tie_parameters(network: Network, rng: np.random.Generator) -> list[StageIntegers]:
    """Draw frozen parameters: half of the channels make ties, the others are random; one class always wins."""
    *others, last = random_parameters(network, rng, 1.0)
    frozen = []
    for one in others:
        constant = rng.integers(2, size=one.bias.size).astype(bool)
        kept = ~constant.reshape(-1, *[1] * (one.weight.ndim - 1))
        frozen.append(StageIntegers(one.weight * kept, np.where(constant, _CONSTANT >> _BIAS, one.bias)))
    bias = np.where(np.arange(last.bias.size) == WINNER, _LEAD, -_LEAD)
    return [*frozen, StageIntegers(np.zeros_like(last.weight), bias)]


def tie_adapters(shape: AdapterSizes, rng: np.random.Generator) -> Adapters:
    """Draw adapters that hardly move logits: A small and even; B multiples of `_GRAIN`, minus 1 for the winner."""
    made = Adapters(shape, 2 * rng.integers(-200, 200, shape.parameters))
    made.b[:] = _GRAIN * rng.integers(-3, 4, made.b.shape)
    made.b[WINNER] -= 1
    return made
