"""Bench of `mac`: sums of all lengths, with extremes and ties, some dropped or continued; two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words
from ...golden.nn.mac import MacSpec
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs


def stimulus(spec: MacSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Sums of all lengths: random, small, extreme and tied; a few dropped, a few continued."""
    half = words // 2
    lengths = [*random_lengths(rng, half, min(spec.longest, 8)), *random_lengths(rng, words - half, spec.longest)]
    first, last = np.zeros((words, 1), np.int64), np.zeros((words, 1), np.int64)
    parts: list[Words] = []
    begin = held = 0
    for length in lengths:
        parts.append(_part(spec, rng, length))
        held += length
        if begin == 0 or held > spec.longest or rng.random() < 0.9:
            first[begin], held = 1, length
        begin += length
        last[begin - 1] = begin == words or rng.random() < 0.9
    fields = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {"i": fields | {"first": first, "last": last}}


def _part(spec: MacSpec, rng: np.random.Generator, length: int) -> Words:
    kind = rng.integers(4)
    words = {}
    for item in spec.streams()["i"].fields[:-2]:
        shape, low, high = (length, item.lanes), item.format.minimum, item.format.maximum
        if kind == 0:
            values = rng.integers(low, high, shape, endpoint=True)
        elif kind == 1:
            values = rng.integers(low >> 7, high >> 7, shape, endpoint=True)
        elif kind == 2:
            values = np.full(shape, low if rng.integers(2) else high)
        else:  # small multiples of half a rounding step
            unit = 11 if item.name == "x" else 0
            values = rng.integers(-3, 3, shape, endpoint=True) << unit
        words[item.name] = values
    return words


def scenario(spec: MacSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, each ending with a sum; a word is accepted every cycle."""
    return [replace(phase, cycles=words + spec.latency) for phase in two_jobs(spec, rng, words, stimulus)]
