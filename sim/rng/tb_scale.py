"""Bench of `scale`: factors from reset; load of a distant state with read-back of the old; factors from there."""

from __future__ import annotations

import numpy as np

from ...golden.rng.scale import ScaleSpec
from ...golden.rng.urng import load_words
from ..phase import Phase


def scenario(spec: ScaleSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    first = Phase({}, spec.run({}, words), reset=True, cycles=words)
    if not spec.varies:
        return [first]
    target = int(rng.integers(spec.period))
    load = load_words(spec.serial(target))
    read_back = {"scan": {"bit": spec.serial(words)[:, None]}}
    return [first, Phase(load, read_back), Phase({}, {"o": {"scale": spec.factors(target, words)[:, None]}})]
