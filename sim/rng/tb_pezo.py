"""Bench of `pezo`: words from reset, a mark, replays, a load with read-back of the old state, further replays."""

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
    """Sidebands with which each perturbation is drawn one to three times; empty if the spec cannot replay."""
    return random_replays(rng, words, shortest=1 + spec.replay_cycles // 4) if spec.can_replay else {}


def scenario(spec: PezoSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    return replays_and_loads(spec, rng, words)


def replays_and_loads(spec: Generator, rng: np.random.Generator, words: int) -> list[Phase]:
    """A plain run after reset, then replays, a load with read-back of the old state, and replays from there."""
    plain = Phase({}, spec.run({}, words), reset=True, cycles=words + spec.latency)
    phases, position = [plain], words
    if spec.can_replay:
        # one word sets the mark, to which the following replays return
        to_mark = {"mark": {"bit": np.ones((1, 1), np.int64)}}
        phases.append(Phase(to_mark, {"o": spec.words_at(np.array([position]))}))
        position += 1
    replays, more = stimulus(spec, rng, words), stimulus(spec, rng, words)
    walked = position + replayed(replays, words + 1)
    # includes the cycles in which the ring still rotates after the mark
    cycles = spec.replay_cycles + spec.cycles(replays, words)
    phases.append(Phase(replays, {"o": spec.words_at(walked[:-1])}, cycles=cycles))
    target = int(rng.integers(spec.period))
    load = load_words(spec.serial(target))
    phases.append(Phase(load, {"scan": {"bit": spec.serial(int(walked[-1]))[:, None]}}))
    numbers = spec.words_at(target + replayed(more, words))
    phases.append(Phase(more, {"o": numbers}, cycles=spec.cycles(more, words)))
    return phases
