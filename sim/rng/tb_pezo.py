"""Bench of `pezo`: words from reset, a mark, replays, a loaded position with state read-back, further replays."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.rng.generators import Generator
from ...golden.rng.pezo import PezoSpec
from ...golden.rng.pool import replayed
from ...golden.rng.urng import load_words
from ..phase import Phase
from .tb_pool import random_replays


def stimulus(spec: Generator, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Sidebands for perturbations drawn up to three times, if the configuration can replay."""
    return random_replays(rng, words, shortest=1 + spec.replay_cycles // 4) if spec.can_replay else {}


def scenario(spec: PezoSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    return replays_and_loads(spec, rng, words)


def replays_and_loads(spec: Generator, rng: np.random.Generator, words: int) -> list[Phase]:
    """A plain run after reset, then replays, a load with read-back of the old state, and replays from there."""
    plain = Phase({}, spec.run({}, words), reset=True, cycles=words + spec.latency)
    phases, position = [plain], words
    if spec.can_replay:
        # a separate word sets the mark, the origin of the following replays
        to_mark = {"mark": {"bit": np.ones((1, 1), np.int64)}}
        phases.append(Phase(to_mark, {"o": spec.words_at(np.array([position]))}))
        position += 1
    replays, more = stimulus(spec, rng, words), stimulus(spec, rng, words)
    walked = position + replayed(replays, words + 1)
    # the ring still rotates from the mark when the phase begins
    cycles = spec.replay_cycles + spec.cycles(replays, words)
    phases.append(Phase(replays, {"o": spec.words_at(walked[:-1])}, cycles=cycles))
    target = int(rng.integers(spec.period))
    load = load_words(spec.serial(target))
    phases.append(Phase(load, {"scan": {"bit": spec.serial(int(walked[-1]))[:, None]}}))
    numbers = spec.words_at(target + replayed(more, words))
    phases.append(Phase(more, {"o": numbers}, cycles=spec.cycles(more, words)))
    return phases
