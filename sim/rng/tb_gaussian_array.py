"""Bench of `gaussian_array`: that of `pezo`, whose ports it has; then states of other seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.rng.gaussian_array import GaussianArraySpec
from ...golden.rng.urng import load_words
from ..phase import Phase
from .tb_pezo import replays_and_loads

OTHER_SEEDS = 4
"""Seeds of which a state is loaded."""


def scenario(spec: GaussianArraySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """A plain run after reset, then replays, loads and replays; then words from states of other seeds.

    Registers of one width, which repeat together, have other contents at the same time with another seed.
    """
    phases = replays_and_loads(spec, rng, words)
    for _ in range(OTHER_SEEDS):
        other = replace(spec, seed=int(rng.integers(1 << 30)))
        first = int(rng.integers(spec.period))
        there = other.words_at(first + np.arange(words // OTHER_SEEDS))
        phases += [Phase(load_words(other.serial(first))), Phase({}, {"o": there})]
    return phases
