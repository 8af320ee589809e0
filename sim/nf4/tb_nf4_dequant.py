"""Bench of `nf4_dequant`: all codes, scales of all sizes, many products are ties or near one; then a second job."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Integers
from ...golden.nf4.codec import LEVEL_FRACTION, LEVELS
from ...golden.nf4.nf4_dequant import SCALE, Nf4DequantSpec


def stimulus(spec: Nf4DequantSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Make any codes; scales 0, small ones, whose products are often ties, near ties, any, and the largest."""
    fields: dict[str, Integers] = {}
    for item in spec.streams()["i"].fields:
        shape = (words, item.lanes)
        values = rng.integers(0, item.format.maximum, shape, endpoint=True)
        if item.name == "scale":
            values >>= rng.integers(0, item.format.width, shape)
            # times 2**k, k to 15: products whose lost bits are exactly a half are common
            values = np.where(rng.random(shape) < 0.25, values & ~0x3FFF, values)
            codes = fields["code"][:, rng.integers(spec.lanes, size=item.lanes)]
            values = np.where(rng.random(shape) < 0.25, near_tie_scales(codes, rng), values)
            values = np.where(rng.random(shape) < 0.1, rng.choice([0, item.format.maximum], shape), values)
        fields[item.name] = values
    return {"i": fields}


def near_tie_scales(codes: Integers, rng: np.random.Generator) -> Integers:
    """Draw scales whose products with the levels of codes are a single bit beside a tie, on either side.

    Parameters
    ----------
    codes : array of int
    rng : Generator
    """
    # a level is an odd number times 2**zeros: modulo a power of two the odd number has an inverse
    zeros = np.array([(level & -level).bit_length() - 1 if level else 0 for level in LEVELS.tolist()])
    odd = (LEVELS >> zeros) | 1
    inverse = np.array([pow(one, -1, 1 << LEVEL_FRACTION) for one in odd.tolist()])
    bit = np.maximum(rng.integers(LEVEL_FRACTION, size=codes.shape), zeros[codes])
    product = (1 << LEVEL_FRACTION - 1) + rng.choice([-1, 1], codes.shape) * (1 << bit)
    low = (product >> zeros[codes]) * inverse[codes] % (1 << LEVEL_FRACTION)
    scales: Integers = (rng.integers(0, SCALE.maximum, codes.shape, endpoint=True) & -1 << LEVEL_FRACTION) + low
    return scales
