"""Bench of `tile_stream`: tensors of all kinds and lists of sensitive weights, one beat or more, at any address."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words
from ....golden.rng.perturbation import cycles_of
from ....golden.stream.frozen_base import BLOCK
from ....golden.stream.weights.tensor_sequencer import BEAT_NUMBER, CorrectionReads, TensorReads, words_of
from ....golden.stream.weights.tile_dequant import MATRICES, TensorKind
from ....golden.stream.weights.tile_stream import BEAT_CORRECTIONS, TileStreamSpec
from ...phase import Phase
from ...stimulus import two_jobs
from .tb_tile_dequant import random_beats


def random_reads(spec: TileStreamSpec, rng: np.random.Generator, most: int) -> TensorReads:
    """Reads of a random tensor: a vector of about a burst, a few matrix records, or up to about `most` beats."""
    kind = TensorKind(int(rng.integers(len(TensorKind))))
    if kind in MATRICES:
        each = spec.sequencer.weights.dequant.record_beats(kind)
        records = int(rng.choice([int(rng.integers(1, 7)), int(rng.integers(1, max(7, most // each)))], p=[0.8, 0.2]))
        beats = records * each
        # output groups shorter than these records, or longer by a power of two
        more = 1 << int(rng.integers(3, 16))
        blocks = int(rng.integers(1, 4)) + int(rng.choice([0, more]))
    else:
        blocks = int(rng.integers(1, 1 << 16))
        beats = int(rng.choice([1, 2, spec.burst, *rng.integers(1, (3 * spec.burst, max(2, most)))]))
    tiles = int(rng.integers(1, BLOCK // spec.lanes, endpoint=True))
    return TensorReads(_first_beat(rng, spec.burst), beats, kind, blocks, tiles, int(rng.integers(1 << 16)))


def _first_beat(rng: np.random.Generator, burst: int) -> int:
    """Random beat number, often near a multiple of `burst`."""
    near = burst * int(rng.integers(1, 1 << 20)) + int(rng.integers(-2, 3))
    return int(rng.choice([near, int(rng.integers(BEAT_NUMBER.maximum))]))


def stimulus(spec: TileStreamSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Tensors of `words` beats in all, and lists of sensitive weights with half as many weights."""
    reads, lists = list[TensorReads](), list[CorrectionReads]()
    while sum(read.beats for read in reads) < words:
        reads.append(random_reads(spec, rng, words))
    most = 2 * BEAT_CORRECTIONS * spec.correction_burst
    while sum(read.weights for read in lists) < words // 2:
        weights = int(rng.choice([1, 2, 3, int(rng.integers(1, most, endpoint=True)), int(rng.integers(1, words))]))
        lists.append(CorrectionReads(_first_beat(rng, spec.correction_burst), weights))
    streams = spec.streams()

    def base(count: int) -> Words:
        return {"beat": rng.integers(1 << spec.address - 4, size=(count, 1))}

    counts = sum(read.beats for read in reads), sum(cycles_of(read.weights, BEAT_CORRECTIONS) for read in lists)
    return {
        "reads": words_of(reads, streams["reads"].fields),
        "base": base(len(reads)),
        "fetched": {"data": random_beats(rng, counts[0])},
        "correction_reads": words_of(lists, streams["correction_reads"].fields),
        "correction_base": base(len(lists)),
        "correction_fetched": {"data": random_beats(rng, counts[1])},
    }


def scenario(spec: TileStreamSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs without expected cycles."""
    return two_jobs(spec, rng, words, stimulus)
