"""Bench of `softmax`: samples of all lengths, close, distant and equal logits; exact cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags, packets_of
from ...golden.fixed import Q8_16, Integers
from ...golden.nn.softmax import SoftmaxSpec
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs

EDGES = ((0, 1, 622), (0, 1013), (0, 1152), (0, 976))
"""Samples by their distances in table steps.

A sum with a saturating mantissa; probabilities of 1.5 and of 0.5 last places; a mantissa of half a last place.
"""


def stimulus(spec: SoftmaxSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Samples of all lengths, with logits wide, narrow, equal or extreme, and ties in every rounding."""
    lengths = random_lengths(rng, words, spec.classes)
    samples = [_sample(spec, rng, length, kind % 7) for kind, length in enumerate(lengths)]
    return {"i": {"logit": np.concatenate(samples)[:, None], "last": last_flags(lengths)}}


def _sample(spec: SoftmaxSpec, rng: np.random.Generator, length: int, kind: int) -> Integers:
    if kind == 0:
        return Q8_16.from_float(rng.normal(0, 3, length))
    if kind == 1:
        return Q8_16.from_float(rng.normal(0, 0.2, length))
    if kind == 2:  # near the last distance of the table
        far = (spec.tables.distance.maximum << 9) + rng.integers(-1024, 1024, length)
        return np.where(rng.random(length) < 0.4, 0, -far)
    if kind == 3:
        return np.full(length, rng.integers(Q8_16.minimum, Q8_16.maximum, endpoint=True))
    if kind == 4:
        return rng.choice([Q8_16.minimum, Q8_16.maximum, 0], length)
    if kind == 5:
        steps = np.full(length, spec.tables.distance.maximum)
        edge = EDGES[int(rng.integers(len(EDGES)))][:length]
        steps[: len(edge)] = edge
        return -rng.permutation(steps) << 9
    return rng.integers(-300, 300, length) << 8  # half of the distances are ties


def scenario(spec: SoftmaxSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of whole samples; the cycles of the first are the sum of its samples' periods."""
    first, second = two_jobs(spec, rng, words, stimulus)
    lengths = [end - start for start, end in packets_of(first.inputs["i"]["last"])]
    return [replace(first, cycles=sum(map(spec.period, lengths)) + spec.drain), second]
