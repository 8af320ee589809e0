"""Bench of `array_path`: linear and attention tiles interleaved, with few and many rows."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Q8_16, Format, Integers
from ....golden.stream.array.array_path import ArrayPathSpec, TileKind
from ....golden.stream.array.tile_array import Q4_14
from ....golden.stream.attention import WEIGHT
from ...phase import Phase
from ...stimulus import two_jobs


def _values(rng: np.random.Generator, form: Format, shape: tuple[int, int]) -> Integers:
    """Random numbers of all magnitudes."""
    return rng.integers(form.minimum, form.maximum, shape, endpoint=True) >> rng.integers(0, form.width, shape)


def _tile(
    spec: ArrayPathSpec, rng: np.random.Generator, kind: TileKind, rows: Integers, flags: Words
) -> dict[str, Words]:
    """Words of a tile, for all streams."""
    count = len(rows)
    none = {name: np.zeros((0, 1), np.int64) for name in ("first", "last")}
    contexts, beats = kind == TileKind.CONTEXTS, spec.array.beats
    values = _values(rng, Q8_16, (0 if contexts else count, spec.lanes))
    terms = rng.integers(0, 1 << WEIGHT.fraction, (count if contexts else 0, spec.lanes), endpoint=True)
    row_flags, other = (none, flags) if contexts else (flags, none)
    number = rows[:, None]
    tiles = {
        port: {"weight": _values(rng, Q4_14, (beats if chosen else 0, 2 * spec.columns))}
        for port, chosen in (("weights", kind == TileKind.LINEAR), ("keys", kind != TileKind.LINEAR))
    }
    return {
        "order": {
            "kind": np.array([[kind]], np.int64),
            "rows": np.array([[count]]),
            "used": rng.choice([spec.lanes, int(rng.integers(1, spec.lanes, endpoint=True))], (1, 1)),
        },
        "rows": {"value": values, "row": number[: len(values)], **row_flags},
        "terms": {"weight": terms, "query": number[: len(terms)], **other},
        **tiles,
    }


def _operation(spec: ArrayPathSpec, rng: np.random.Generator, kind: TileKind, count: int) -> list[dict[str, Words]]:
    """Tiles of 1 or 2 output groups; for contexts some rows are complete before the last tile."""
    words = []
    for _ in range(int(rng.integers(1, 2, endpoint=True))):
        tiles = int(rng.integers(1, 3, endpoint=True))
        ends = np.full(count, tiles - 1)
        if kind == TileKind.CONTEXTS:
            ends = np.sort(rng.integers(0, tiles, count))
        for tile in range(tiles):
            rows = np.flatnonzero(ends >= tile)
            if not len(rows):
                break
            first = np.full((len(rows), 1), int(tile == 0))
            last = (ends[rows] == tile)[:, None].astype(np.int64)
            words.append(_tile(spec, rng, kind, rows, {"first": first, "last": last}))
    return words


def stimulus(spec: ArrayPathSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations of all tile kinds; in some, rows return as early as allowed, others fill the accumulators."""
    tiles, rows = list[dict[str, Words]](), 0
    while rows < words // 4:
        kind = TileKind(int(rng.integers(len(TileKind))))
        most = spec.sums if kind == TileKind.LINEAR else spec.queries
        count = int(rng.choice([1, 2, most, int(rng.integers(1, most, endpoint=True))]))
        tiles += _operation(spec, rng, kind, min(count, max(words // 4, 2)))
        rows += count
    return joined(tiles)


def scenario(spec: ArrayPathSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    return two_jobs(spec, rng, words, stimulus)
