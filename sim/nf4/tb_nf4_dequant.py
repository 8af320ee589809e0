"""Bench of `nf4_dequant`: all codes, scales of all magnitudes, many products at or near ties; two jobs."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Integers
from ...golden.nf4.codec import LEVEL_FRACTION, LEVELS
from ...golden.nf4.nf4_dequant import SCALE, Nf4DequantSpec


def stimulus(spec: Nf4DequantSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Random codes, with scales 0, small (frequent ties), near ties, random and maximal."""
    fields: dict[str, Integers] = {}
    for item in spec.streams()["i"].fields:
        shape = (words, item.lanes)
        values = rng.integers(0, item.format.maximum, shape, endpoint=True)
        if item.name == "scale":
            values >>= rng.integers(0, item.format.width, shape)
            # products with multiples of 2**14 often tie
            values = np.where(rng.random(shape) < 0.25, values & ~0x3FFF, values)
            codes = fields["code"][:, rng.integers(spec.lanes, size=item.lanes)]
            values = np.where(rng.random(shape) < 0.25, near_tie_scales(codes, rng), values)
            values = np.where(rng.random(shape) < 0.1, rng.choice([0, item.format.maximum], shape), values)
        fields[item.name] = values
    return {"i": fields}


def near_tie_scales(codes: Integers, rng: np.random.Generator) -> Integers:
    """Scales whose products with the levels of `codes` are a single bit off a tie, on either side."""
    # a level is an odd number times 2**zeros; odd numbers are invertible modulo a power of two
    zeros = np.array([(level & -level).bit_length() - 1 if level else 0 for level in LEVELS.tolist()])
    odd = (LEVELS >> zeros) | 1
    inverse = np.array([pow(number, -1, 1 << LEVEL_FRACTION) for number in odd.tolist()])
    bit = np.maximum(rng.integers(LEVEL_FRACTION, size=codes.shape), zeros[codes])
    product = (1 << LEVEL_FRACTION - 1) + rng.choice([-1, 1], codes.shape) * (1 << bit)
    low = (product >> zeros[codes]) * inverse[codes] % (1 << LEVEL_FRACTION)
    scales: Integers = (rng.integers(0, SCALE.maximum, codes.shape, endpoint=True) & -1 << LEVEL_FRACTION) + low
    return scales
