"""Bench of `nf4_quant`: blocks of all lengths, some of zeros, with -128.0 or with ties; exact cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags, packets_of
from ...golden.fixed import Q8_16, Integers
from ...golden.nf4.codec import THRESHOLD_FRACTION, THRESHOLDS
from ...golden.nf4.nf4_dequant import SCALE
from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs

_KINDS = 6
"""Number of kinds of blocks for any word width; with two values a word there is one more, neighbours."""


def stimulus(spec: Nf4QuantSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Blocks of all lengths: random numbers, activations, zeros, with -128.0, ties, or integers near 0.

    With two values a word, also blocks whose words hold two neighbouring magnitudes.
    """
    counts = random_lengths(rng, words, spec.words(spec.length))
    odd = [int(rng.integers(spec.values) or spec.values * count > spec.length) for count in counts]
    lengths = [spec.values * count - is_odd for count, is_odd in zip(counts, odd, strict=True)]
    kinds = _KINDS + (spec.values == 2)
    blocks = [_block(rng, length, kind % kinds) for kind, length in enumerate(lengths)]
    last = last_flags(counts)
    if spec.values == 1:
        return {"i": {"value": np.concatenate(blocks)[:, None], "last": last}}
    # an unused value is arbitrary: the last value again, or the largest magnitude
    fillers = [rng.choice([block[-1], Q8_16.minimum], is_odd) for block, is_odd in zip(blocks, odd, strict=True)]
    values = np.concatenate([part for pair in zip(blocks, fillers, strict=True) for part in pair])
    single = np.zeros_like(last)
    single[last[:, 0] == 1, 0] = odd
    return {"i": {"value": values.reshape(-1, 2), "single": single, "last": last}}


def _block(rng: np.random.Generator, length: int, kind: int) -> Integers:
    if kind == 0:
        return rng.integers(Q8_16.minimum, Q8_16.maximum, length, endpoint=True)
    if kind == 1:
        return Q8_16.from_float(rng.normal(0, 1.5, length)).clip(min=0)
    if kind == 2:
        return np.zeros(length, np.int64)
    if kind == 3:
        return rng.choice([Q8_16.minimum, Q8_16.minimum + 1, 0, Q8_16.maximum], length)
    if kind == 4:  # at the thresholds of the first value's scale, and 1 above
        scale = int(rng.integers(0, SCALE.maximum, endpoint=True))
        borders = (scale * THRESHOLDS) >> THRESHOLD_FRACTION
        values = rng.choice(borders, length) + rng.integers(0, 2, length)
        values[0] = rng.choice([-scale, scale])
        return values
    if kind == _KINDS:
        first = rng.integers(0, Q8_16.maximum, -(-length // 2))
        pairs = rng.permuted(np.stack([first, first + 1], axis=1), axis=1)
        neighbours: Integers = (pairs * rng.choice([-1, 1], pairs.shape)).reshape(-1)[:length]
        return neighbours
    return rng.integers(-7, 8, length)


def scenario(spec: Nf4QuantSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of whole blocks; exact cycles of the first."""
    first, second = two_jobs(spec, rng, words, stimulus)
    lengths = [spec.values * (end - start) for start, end in packets_of(first.inputs["i"]["last"])]
    return [replace(first, cycles=spec.cycles(lengths)), second]
