"""Bench of `gaussian_array`: that of `pezo`, whose ports it has."""

from __future__ import annotations

import numpy as np

from ...golden.rng.gaussian_array import GaussianArraySpec
from ..phase import Phase
from .tb_pezo import replays_and_loads


def scenario(spec: GaussianArraySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """A plain run after reset, then replays, a load with the old state read back, and replays from there."""
    return replays_and_loads(spec, rng, words)
