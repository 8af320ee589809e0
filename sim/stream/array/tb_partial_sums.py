"""Bench of `partial_sums`: groups of rows over several tiles, any row order, extremes of the formats."""

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
"""Smallest number of rows in a group such that no row returns during its own write-back."""


def _terms(spec: PartialSumsSpec, rng: np.random.Generator, tiles: int, rows: int) -> Integers:
    """Random terms, (tiles, rows, columns); some rows contain only extreme values."""
    shape = tiles, rows, spec.columns
    terms = rng.integers(SUM.minimum, SUM.maximum, shape, endpoint=True) >> rng.integers(0, SUM.width, shape)
    ends = rng.choice([SUM.minimum, SUM.maximum], (1, rows, spec.columns))
    # the more tiles, the smaller the terms: the sum fits `TOTAL`
    spare = max((tiles - 1).bit_length() - (TOTAL.width - SUM.width), 0)
    return np.where(rng.random((1, rows, 1)) < 0.3, ends, terms) >> spare


def _group(spec: PartialSumsSpec, rng: np.random.Generator, tiles: int, rows: int) -> Words:
    """All terms of a group of rows, tile by tile, with the rows ascending or shuffled."""
    order = np.arange(rows) if rng.random() < 0.5 else rng.permutation(spec.sums)[:rows]
    tile = np.arange(tiles).repeat(rows)[:, None]
    fields = {"row": np.tile(order, tiles)[:, None], "first": tile == 0, "last": tile == tiles - 1}
    flags = {name: column.astype(np.int64) for name, column in fields.items()}
    return {"sum": _terms(spec, rng, tiles, rows).reshape(-1, spec.columns)} | flags


def _groups(spec: PartialSumsSpec, rng: np.random.Generator, sizes: Iterable[tuple[int, int]]) -> dict[str, Words]:
    return joined([{"i": _group(spec, rng, tiles, rows)} for tiles, rows in sizes])


def _regular(spec: PartialSumsSpec, rng: np.random.Generator, rows: int) -> list[tuple[int, int]]:
    """Group sizes, (tiles, rows), with so many tiles that the previous group leaves without a stall."""
    sizes = [min(max(size, APART), spec.sums) for size in random_lengths(rng, rows, spec.sums)]
    return [(1 + spec.parts * -(-before // size), size) for before, size in zip([1, *sizes], sizes, strict=False)]


def scenario(spec: PartialSumsSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """A job whose exact cycle count excludes stalls; then groups of any size, and the smallest possible sum."""
    rows = max(words // spec.parts, APART)
    regular = _regular(spec, rng, rows)
    any_size = [(int(rng.integers(1, 4, endpoint=True)), size) for size in random_lengths(rng, rows, spec.sums)]
    # with enough words, the smallest sum of `TOTAL`
    least = _groups(spec, rng, [(min(TOTAL.minimum // SUM.minimum, words // 8), 1)])
    least["i"]["sum"][...] = SUM.minimum
    jobs = iter((_groups(spec, rng, regular), joined([least, _groups(spec, rng, any_size)])))
    first, second = two_jobs(spec, rng, words, lambda *_: next(jobs))
    taken, last = sum(tiles * size for tiles, size in regular), regular[-1][1]
    return [replace(first, cycles=taken - last + spec.latency + last * spec.parts), second]
