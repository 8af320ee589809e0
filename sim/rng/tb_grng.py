"""Bench of `grng`: numbers from reset, then the continuation."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.rng.grng import GrngSpec


def stimulus(spec: GrngSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """A source has no input."""
    return {}
