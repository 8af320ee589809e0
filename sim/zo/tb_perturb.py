"""Bench of `perturb`: random words with the ends of each range far too often, then a second job without a reset."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.zo.perturb import PerturbSpec


def stimulus(spec: PerturbSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Make every field at random, with the ends of each range far more often than chance would give them."""
    fields = {}
    for item in spec.streams()["i"].fields:
        low, high = item.format.minimum, item.format.maximum
        values = rng.integers(low, high, (words, item.lanes), endpoint=True)
        ends = rng.choice([low, high, low + 3, high - 3], values.shape).clip(low, high)
        fields[item.name] = np.where(rng.random(values.shape) < 0.2, ends, values)
    return {"i": fields}
