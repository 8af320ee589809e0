"""Order of samples: epochs of random batches."""

from __future__ import annotations

import numpy as np

from ..fixed import Integers


def batches(count: int, size: int, rng: np.random.Generator) -> list[Integers]:
    """Indices of one epoch's batches: all samples in random order, the last batch with the rest.

    Parameters
    ----------
    count : int
        Samples.
    size : int
        Samples of a batch.
    rng : Generator
        Draws one permutation.

    Returns
    -------
    list of array of int64, (size,) or less
    """
    order = rng.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]


def epoch_batches(count: int, size: int, epochs: int, seed: int) -> list[list[Integers]]:
    """Indices of each batch of each epoch of a fine-tuning run.

    Parameters
    ----------
    count : int
        Samples.
    size : int
        Samples of a batch.
    epochs : int
    seed : int
        Seed of the run.
    """
    rng = np.random.default_rng([seed, 2])
    return [batches(count, size, rng) for _ in range(epochs)]
