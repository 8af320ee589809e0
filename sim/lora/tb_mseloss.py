"""Bench of `mseloss`: samples of all lengths, near and far from their targets, at ties; two jobs."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words, last_flags
from ...golden.fixed import Q4_12, Q8_16
from ...golden.lora.mseloss import MselossSpec
from ..stimulus import random_lengths

_DROPPED = Q8_16.fraction - Q4_12.fraction


def stimulus(spec: MselossSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Random logits, with targets that are close, random, or make gradients that tie or lie at a limit."""
    logits, anything = rng.integers(Q8_16.minimum, Q8_16.maximum, (2, words), endpoint=True)
    bound = 1 << Q4_12.width - 1 + _DROPPED
    near = rng.integers(-(1 << 14), 1 << 14, words)
    ties = (rng.integers(-9, 9, words) << _DROPPED) + (1 << _DROPPED - 1)
    ends = rng.choice([-bound, bound], words) + rng.integers(-40, 40, words)
    away = np.choose(rng.integers(0, 3, words), [near, ties, ends])
    targets = np.where(rng.random(words) < 0.2, anything, (logits - away).clip(Q8_16.minimum, Q8_16.maximum))
    return {
        "i": {"logit": logits[:, None], "last": last_flags(random_lengths(rng, words, 40))},
        "target": {"target": targets[:, None]},
    }
