"""Bench of `tile_dequant`: NF4 matrices and value tensors in turn, with error beats; two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words
from ....golden.fixed import Integers
from ....golden.stream.frozen_base import BLOCK
from ....golden.stream.weights.tile_dequant import BEAT_VALUES, MATRICES, Beats, TensorKind, TileDequantSpec
from ...phase import Phase
from ...stimulus import two_jobs


def stimulus(spec: TileDequantSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    remaining, tensors = words, list[Beats]()
    while not tensors or remaining > 0:
        tensors.append(random_beats_of(spec, rng, TensorKind(int(rng.integers(len(TensorKind))))))
        remaining -= tensors[-1].length * spec.record_beats(tensors[-1].kind)
    data = random_beats(rng, sum(tensor.length * spec.record_beats(tensor.kind) for tensor in tensors))
    error = rng.random((len(data), 1)) < rng.choice([0, 0.02])
    operation = {name: np.array([[getattr(tensor, name)] for tensor in tensors]) for name in Beats._fields}
    return {"operation": operation, "beats": {"data": data, "error": error.astype(np.int64)}}


def random_beats_of(spec: TileDequantSpec, rng: np.random.Generator, kind: TensorKind) -> Beats:
    """Random size: a matrix with few output groups or few input blocks, or a vector."""
    if kind in MATRICES:
        shape = rng.choice([1, spec.columns + 1]), rng.integers(1, (192 if kind == TensorKind.NF4 else BLOCK) + 1)
        return spec.beats_of(kind, tuple(map(int, shape)))
    # the block ignores `blocks` and `tiles` of a vector
    return Beats(kind, int(rng.choice([1, 2, int(rng.integers(1, 60))])), *map(int, rng.integers(1, 4, 2)))


def random_beats(rng: np.random.Generator, beats: int) -> Integers:
    """Random beats; some hold the largest scales or codes, or zeros."""
    data = rng.integers(0, 1 << 32, (beats, BEAT_VALUES))
    ends = rng.choice([0, (1 << 32) - 1, 0x7FFF_FFFF, 0x8000_0000], data.shape)
    return np.where(rng.random(data.shape) < 0.1, ends, data)


def scenario(spec: TileDequantSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs with exact cycles: a beat of codes per cycle, or per beat as many cycles as the lanes need."""
    return [replace(phase, cycles=spec.cycles(phase.inputs)) for phase in two_jobs(spec, rng, words, stimulus)]
