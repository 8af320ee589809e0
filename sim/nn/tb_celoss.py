"""Bench of `celoss`: samples of 1 to 256 words, labels inside and outside the sample; two jobs."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words, last_flags
from ...golden.fixed import Q4_12
from ...golden.nn.celoss import LABEL, CelossSpec
from ..stimulus import random_lengths


def stimulus(spec: CelossSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Mostly probabilities, some random numbers; labels mostly within the sample."""
    lengths = random_lengths(rng, words, int(rng.choice([10, LABEL.maximum + 1])))
    inside = rng.integers(0, lengths)
    labels = np.where(rng.random(len(lengths)) < 0.1, rng.integers(0, LABEL.maximum + 1, len(lengths)), inside)
    numbers = rng.integers(0, 1 << Q4_12.fraction, words, endpoint=True)
    anything = rng.integers(Q4_12.minimum, Q4_12.maximum, words, endpoint=True)
    numbers = np.where(rng.random(words) < 0.2, anything, numbers)
    return {
        "i": {"probability": numbers[:, None], "last": last_flags(lengths)},
        "label": {"label": labels[:, None]},
    }
