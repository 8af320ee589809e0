"""Bench of `pool`: rows with replays and marks from reset; an address load with read-back; the same from there."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.rng.pool import PoolSpec, replayed
from ...golden.rng.urng import load_words
from ..phase import Phase


def random_replays(rng: np.random.Generator, words: int, shortest: int = 1) -> dict[str, Words]:
    """Sidebands `replay` and `mark` for perturbations of random length, drawn one to three times.

    Both bits are sometimes set at once. `words` is the length of the accompanied stream, `shortest` the length of the
    shortest perturbation.
    """
    replay, mark = np.zeros((words, 1), np.int64), np.zeros((words, 1), np.int64)
    end = -1
    while True:
        length = int(rng.integers(shortest, shortest + 40))
        for again in range(draws := int(rng.integers(1, 4))):
            end += length
            if end >= words:
                return {"replay": {"bit": replay}, "mark": {"bit": mark}}
            replay[end] = again < draws - 1
            mark[end] = again == draws - 1 or rng.integers(4) == 0


def scenario(spec: PoolSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Rows with replays after reset; an address load with read-back of the old; rows with replays from there."""
    first, second = random_replays(rng, words), random_replays(rng, words)
    target = int(rng.integers(spec.rows))
    here = int(replayed(first, words + 1)[-1])
    rows = spec.words_at(target + replayed(second, words))
    return [
        Phase(first, spec.run(first, words), reset=True, cycles=words),
        Phase(load_words(spec.serial(target)), {"scan": {"bit": spec.serial(here)[:, None]}}),
        Phase(second, {"o": {"number": rows}}, cycles=words),
    ]
