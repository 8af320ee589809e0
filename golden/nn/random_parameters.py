"""Random parameters of a network for benches and self-tests of cores."""

from __future__ import annotations

import numpy as np

from ..fixed import Q4_12
from ..models.network import Network
from .forward import StageIntegers


def random_parameters(network: Network, rng: np.random.Generator, gain: float = 1.0) -> list[StageIntegers]:
    """Make frozen parameters in Q4.12 whose activations stay as large as the samples; they grow where `gain` > 1."""
    frozen = []
    for stage in network.stages:
        weight = rng.normal(0, gain * (2 / np.prod(stage.weight_shape[1:])) ** 0.5, stage.weight_shape)
        frozen.append(StageIntegers(Q4_12.from_float(weight), rng.integers(-400, 400, stage.biases)))
    return frozen
