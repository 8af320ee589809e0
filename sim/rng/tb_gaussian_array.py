"""Bench of `gaussian_array`: the bench of `pezo`, which has the same ports; then loaded states of other seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.rng.gaussian_array import GaussianArraySpec
from ...golden.rng.urng import load_words
from ..phase import Phase
from .tb_pezo import replays_and_loads

OTHER_SEEDS = 4
"""Number of other seeds whose states are loaded."""


def scenario(spec: GaussianArraySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """The phases of `tb_pezo`; then words from loaded states of other seeds.

    Registers of equal width have equal periods; only another seed changes their contents relative to each other.
    """
    phases = replays_and_loads(spec, rng, words)
    for _ in range(OTHER_SEEDS):
        other = replace(spec, seed=int(rng.integers(1 << 30)))
        first = int(rng.integers(spec.period))
        numbers = other.words_at(first + np.arange(words // OTHER_SEEDS))
        phases += [Phase(load_words(other.serial(first))), Phase({}, {"o": numbers})]
    return phases
