"""Bench of `perturb`: random words with frequent extremes; two jobs."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.zo.perturb import PerturbSpec


def stimulus(spec: PerturbSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Random fields, with frequent ties and extremes; sometimes all fields are extreme."""
    fields, corner = {}, rng.random((words, 1)) < 0.2
    for item in spec.streams()["i"].fields:
        low, high = item.format.minimum, item.format.maximum
        values = rng.integers(low, high, (words, item.lanes), endpoint=True)
        ends = rng.choice([low, high, low + 3, high - 3], values.shape).clip(low, high)
        if item.name == "number" and spec.shift:
            # half a unit in the weight's last place, and one bit more
            beside = rng.choice([0, *(1 << np.arange(spec.shift - 1))], values.shape)
            ties = (values >> spec.shift << spec.shift) + (1 << (spec.shift - 1)) + beside
            values = np.where(rng.random(values.shape) < 0.3, ties.clip(low, high), values)
        fields[item.name] = np.where(corner | (rng.random(values.shape) < 0.2), ends, values)
    return {"i": fields}
