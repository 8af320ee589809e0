"""Bench of `linear_sequencer`: layers of one to very many tiles and groups, one row to full buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.stream.array.linear_sequencer import LinearOperation, LinearSequencerSpec
from ...phase import Phase
from ...stimulus import two_jobs, whole_job


def _layer(spec: LinearSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    rows = int(rng.choice([1, 2, spec.sums // 2, int(rng.integers(1, spec.sums // 2, endpoint=True))]))
    budget = max(words // (2 * rows), 1)
    stride = int(rng.integers(2 * rows, spec.sums, endpoint=True))
    longest = max(spec.rows // stride, 1)
    if rng.random() < 0.5:
        groups = _count(rng, budget)
        tiles = _count(rng, min(budget // groups, longest))
    else:
        tiles = _count(rng, min(budget, longest))
        groups = _count(rng, budget // tiles)
    most = spec.rows - stride * tiles
    layer = LinearOperation(
        inputs=int(rng.integers((tiles - 1) * spec.lanes + 1, tiles * spec.lanes, endpoint=True)),
        outputs=int(rng.integers((groups - 1) * spec.columns + 1, groups * spec.columns, endpoint=True)),
        source=int(rng.integers(0, max(most, 1))),
        rows=rows,
        stride=stride,
    )
    return {"operation": {name: np.array([[value]], np.int64) for name, value in layer._asdict().items()}}


def _count(rng: np.random.Generator, most: int) -> int:
    """Random number from 1 to `most`; small numbers are as frequent as large ones."""
    return int(rng.integers(1, min(most, 1 << int(rng.integers(most.bit_length() + 1))), endpoint=True))


def stimulus(spec: LinearSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    layers = [_layer(spec, rng, words)]
    while len(spec.run(joined(layers), words)["rows_read"]["row"]) < words:
        layers.append(_layer(spec, rng, _count(rng, words)))
    return joined(layers)


def scenario(spec: LinearSequencerSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs. The first may take at most two cycles per layer more than reads: no unnecessary stall."""
    first, second = two_jobs(spec, rng, words, _layer)
    reads = len(first.expected["rows_read"]["row"])
    more = joined([second.inputs, stimulus(spec, rng, words)])
    return [
        replace(first, cycles=None if reads < 2 else reads + 2),
        whole_job(spec, more),
    ]
