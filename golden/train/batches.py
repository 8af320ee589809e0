"""Order of samples: epochs of random batches."""

from __future__ import annotations

import numpy as np

from ..fixed import Integers


def batches(count: int, size: int, rng: np.random.Generator) -> list[Integers]:
    """Random batches of one epoch, as sample indices; the last batch takes the remainder.

    `rng` draws one permutation of `count` samples.
    """
    order = rng.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def epoch_batches(count: int, size: int, epochs: int, seed: int) -> list[list[Integers]]:
    """Sample indices of each batch of each epoch of a fine-tuning run; equal seeds give equal batches."""
    rng = np.random.default_rng([seed, 2])
    return [batches(count, size, rng) for _ in range(epochs)]
