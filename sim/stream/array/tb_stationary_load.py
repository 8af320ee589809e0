"""Bench of `stationary_load`: key tiles at full rate, then key and value tiles mixed, with zeroed parts and rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Q8_16
from ....golden.stream.array.stationary_load import StationaryLoadSpec
from ...phase import Phase
from ...stimulus import two_jobs


def _tile(spec: StationaryLoadSpec, rng: np.random.Generator, turn: bool) -> dict[str, Words]:
    """Rows of a tile, often with zeroed parts or zeroed rows at the end; bits above the 18 in use are random too."""
    rows = spec.columns if turn else spec.lanes
    tokens = int(rng.integers(0, rows, endpoint=True)) if rng.random() < 0.5 else rows
    part = rng.integers(0, spec.parts)
    zero = rng.random(spec.parts) < rng.choice([0, 0.5])
    fields = {
        "value": rng.integers(Q8_16.minimum, Q8_16.maximum, (rows, spec.lanes), endpoint=True),
        "turn": np.full((rows, 1), int(turn)),
        "part": np.full((rows, 1), part),
        "zero": ((np.arange(rows) >= tokens)[:, None] | zero).astype(np.int64),
    }
    return {"i": fields}


def _cycles(spec: StationaryLoadSpec, tiles: int) -> int:
    """Number of cycles for key tiles, from the first row to the last beat."""
    starts, ends = [0], [spec.columns + spec.beats]
    for _ in range(1, tiles):
        freed = ends[-2] + 1 if len(ends) > 1 else 0
        starts.append(max(starts[-1] + max(spec.columns, spec.beats), freed))
        # the last beat is read `beats` cycles after the tile's last row, or after the previous tile's last beat
        ends.append(max(starts[-1] + spec.columns, ends[-1]) + spec.beats)
    return ends[-1] + spec.latency - 1


def scenario(spec: StationaryLoadSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the first with an exact cycle count."""
    tiles = max(2, words // spec.beats)
    jobs = iter(
        joined([_tile(spec, rng, turn) for turn in turns])
        for turns in ([True] * tiles, (rng.random(tiles) < 0.5).tolist())
    )
    first, second = two_jobs(spec, rng, words, lambda *_: next(jobs))
    return [replace(first, cycles=_cycles(spec, tiles)), second]
