"""Bench of `urng`: numbers from reset; load of a distant state with read-back of the old; numbers from there."""

from __future__ import annotations

import numpy as np

from ...golden.rng.urng import UrngSpec, load_words
from ..phase import Phase


def scenario(spec: UrngSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    target = int(rng.integers(spec.period))
    load = load_words(spec.serial(target))
    read_back = {"scan": {"bit": spec.serial(words)[:, None]}}
    numbers = {"o": {"number": spec.words_at(target + np.arange(words))}}
    return [Phase({}, spec.run({}, words), reset=True, cycles=words), Phase(load, read_back), Phase({}, numbers)]
