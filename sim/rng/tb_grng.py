"""Bench of `grng`: numbers from reset on, then on from where they stopped."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.rng.grng import GrngSpec


def stimulus(spec: GrngSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Give nothing: a source has no input."""
    return {}
