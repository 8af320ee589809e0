"""Bench of `partial_sums`: groups of rows over tiles, rows in any order, ends of the formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Integers
from ....golden.stream.array.partial_sums import TOTAL, PartialSumsSpec
from ....golden.stream.array.tile_array import SUM
from ...phase import Phase
from ...stimulus import random_lengths, two_jobs

APART = 3
"""Rows of a group in which no row comes again while it is written."""


def _terms(spec: PartialSumsSpec, rng: np.random.Generator, tiles: int, rows: int) -> Integers:
    """Make terms, (tiles, rows, columns), in some rows the most negative or largest alone."""
    shape = tiles, rows, spec.columns
    terms = rng.integers(SUM.minimum, SUM.maximum, shape, endpoint=True) >> rng.integers(0, SUM.width, shape)
    ends = rng.choice([SUM.minimum, SUM.maximum], (1, rows, spec.columns))
    # of many tiles smaller ones: the sum of all has `TOTAL`
    spare = max((tiles - 1).bit_length() - (TOTAL.width - SUM.width), 0)
    return np.where(rng.random((1, rows, 1)) < 0.3, ends, terms) >> spare


def _group(spec: PartialSumsSpec, rng: np.random.Generator, tiles: int, rows: int) -> Words:
    """Make all terms of a group of rows: tile by tile, the rows in ascending or in any order."""
    order = np.arange(rows) if rng.random() < 0.5 else rng.permutation(spec.sums)[:rows]
    tile = np.arange(tiles).repeat(rows)[:, None]
    fields = {"row": np.tile(order, tiles)[:, None], "first": tile == 0, "last": tile == tiles - 1}
    flags = {name: column.astype(np.int64) for name, column in fields.items()}
    return {"sum": _terms(spec, rng, tiles, rows).reshape(-1, spec.columns)} | flags


def _groups(spec: PartialSumsSpec, rng: np.random.Generator, sizes: Iterable[tuple[int, int]]) -> dict[str, Words]:
    return joined([{"i": _group(spec, rng, tiles, rows)} for tiles, rows in sizes])


def _regular(spec: PartialSumsSpec, rng: np.random.Generator, rows: int) -> list[tuple[int, int]]:
    """Choose sizes of groups, (tiles, rows), each with so many tiles that the one before has left in time."""
    sizes = [min(max(size, APART), spec.sums) for size in random_lengths(rng, rows, spec.sums)]
    return [(1 + spec.parts * -(-before // size), size) for before, size in zip([1, *sizes], sizes, strict=False)]


def scenario(spec: PartialSumsSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make a job in which no term waits, which is seen by its cycles; then groups of any size, and least sums."""
    rows = max(words // spec.parts, APART)
    regular = _regular(spec, rng, rows)
    any_size = [(int(rng.integers(1, 4, endpoint=True)), size) for size in random_lengths(rng, rows, spec.sums)]
    # in a long bench the least sum that there is
    least = _groups(spec, rng, [(min(TOTAL.minimum // SUM.minimum, words // 8), 1)])
    least["i"]["sum"][...] = SUM.minimum
    jobs = iter((_groups(spec, rng, regular), joined([least, _groups(spec, rng, any_size)])))
    outputs = spec.parts * max(sum(size for _, size in one) for one in (regular, [*any_size, (1, 1)]))
    first, second = two_jobs(spec, rng, outputs, lambda *_: next(jobs))
    taken, last = sum(tiles * size for tiles, size in regular), regular[-1][1]
    return [replace(first, cycles=taken - last + spec.latency + last * spec.parts), second]
