"""Random parameters and samples of a network for benches and self-tests of cores."""

from __future__ import annotations

import numpy as np

from ...fixed import Q4_12, Integers, q8_16_of_bytes
from ...models.network import Network
from .forward import StageIntegers


def random_parameters(network: Network, rng: np.random.Generator, gain: float = 1.0) -> list[StageIntegers]:
    """Frozen parameters in Q4.12; activations keep the size of the samples, or grow for `gain` > 1."""
    frozen = []
    for stage in network.stages:
        weight = rng.normal(0, gain * (2 / np.prod(stage.weight_shape[1:])) ** 0.5, stage.weight_shape)
        frozen.append(StageIntegers(Q4_12.from_float(weight), rng.integers(-400, 400, stage.biases)))
    return frozen


def random_samples(
    network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator, labels: int
) -> tuple[Integers, Integers, Integers]:
    """Random samples and labels.

    Returns
    -------
    inputs, values : array of int, (samples, *input_shape)
        Stored samples, bytes (0 to 1) or Q8.16, and the same in Q8.16.
    labels : array of int, (samples,)
        From 0 to ``labels - 1``.
    """
    shape = (samples, *network.input_shape)
    inputs = rng.integers(0, 256, shape) if byte_inputs else rng.integers(-60000, 60000, shape)
    values = q8_16_of_bytes(inputs) if byte_inputs else inputs
    return inputs, values, rng.integers(0, labels, samples)
