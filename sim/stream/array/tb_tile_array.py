"""Bench of `tile_array`: tiles with one row, with fewer and more rows than weight beats, extremes of the formats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words
from ....golden.fixed import Q8_16, Format, Integers
from ....golden.stream.array.tile_array import Q4_14, TileArraySpec
from ...phase import Phase
from ...stimulus import random_lengths, two_jobs


def _numbers(rng: np.random.Generator, form: Format, shape: tuple[int, int]) -> Integers:
    """Random numbers of all magnitudes; some rows contain only extreme values."""
    values = rng.integers(form.minimum, form.maximum, shape, endpoint=True) >> rng.integers(0, form.width, shape)
    least = np.where(rng.random((shape[0], 1)) < 0.2, form.minimum, values)
    return np.where(rng.random((shape[0], 1)) < 0.05, form.maximum, least)


def stimulus(spec: TileArraySpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Tiles and their rows, sized so that at full speed sometimes tiles wait for rows, sometimes rows for tiles."""
    lengths = random_lengths(rng, words, 2 * spec.beats)
    shape = len(lengths) * spec.beats, 2 * spec.columns
    swap = np.zeros((words, 1), np.int64)
    swap[np.cumsum([0, *lengths[:-1]])] = 1
    rows = {"value": _numbers(rng, Q8_16, (words, spec.lanes)), "swap": swap}
    if spec.tag:
        rows["tag"] = rng.integers(0, 1 << spec.tag, (words, 1))
    return {"w": {"weight": _numbers(rng, Q4_14, shape)}, "x": rows}


def scenario(spec: TileArraySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs. The first must take exactly `spec.cycles`, without an unnecessary stall."""
    first, second = two_jobs(spec, rng, words, stimulus)
    begins = np.flatnonzero(first.inputs["x"]["swap"])
    return [replace(first, cycles=spec.cycles(np.diff(begins, append=words).tolist())), second]
