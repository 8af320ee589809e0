"""Parameters and samples of short jobs: random, or multiples of a grain, whose sums often tie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...golden.fixed import Q4_12, Integers
from ...golden.models.network import Network
from ...golden.nn.arithmetic.forward import StageIntegers

HALF = 1 << Q4_12.fraction - 1
"""0.5 in Q4.12. If all parameters are multiples of it, every second sum lies half-way between two numbers of Q8.16."""


def in_grains(frozen: Sequence[StageIntegers], grain: int) -> list[StageIntegers]:
    """Round the parameters of all stages, see `multiples`."""
    return [StageIntegers(multiples(one.weight, grain), multiples(one.bias, grain)) for one in frozen]


def multiples(parameters: Integers, grain: int) -> Integers:
    """Round Q4.12 parameters to multiples of a power of two."""
    return (grain * np.rint(parameters / grain)).astype(np.int64).clip(Q4_12.minimum, Q4_12.maximum + 1 - grain)


def samples_of(network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator) -> Integers:
    """Draw samples in the core's format: bytes, or Q8.16 between about -1.4 and 1.4."""
    shape = (samples, *network.input_shape)
    return rng.integers(0, 256, shape) if byte_inputs else rng.integers(-90_000, 90_000, shape)


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a log-uniform number."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
