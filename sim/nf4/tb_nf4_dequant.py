"""Bench of `nf4_dequant`: all codes with scales of all sizes, many of whose products are ties; then a second job."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.nf4.nf4_dequant import Nf4DequantSpec


def stimulus(spec: Nf4DequantSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Make any codes; scales 0, small ones, whose products are often ties, any, and the largest."""
    fields = {}
    for item in spec.streams()["i"].fields:
        shape = (words, item.lanes)
        values = rng.integers(0, item.format.maximum, shape, endpoint=True)
        if item.name == "scale":
            values >>= rng.integers(0, item.format.width, shape)
            # times 2**k, k to 15: products whose lost bits are exactly a half are common
            values = np.where(rng.random(shape) < 0.25, values & ~0x3FFF, values)
            values = np.where(rng.random(shape) < 0.1, rng.choice([0, item.format.maximum], shape), values)
        fields[item.name] = values
    return {"i": fields}
