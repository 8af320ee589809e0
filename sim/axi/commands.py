"""Random commands of `axi_read` and `axi_write` to a memory region, and the final steps of their phases."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Integers
from ..phase import Phase, Step

REGION = 1 << 15
"""Bytes of memory that a scenario uses."""
PATIENCE = 10_000
"""Cycles to wait for the last response."""
END = (Step("until", "idle", PATIENCE), Step("get", "idle"), Step("get", "error"), Step("get", "error_address"))
"""Final steps of a phase: read `idle`, `error` and `error_address` after all transfers."""
EXOKAY, SLVERR, DECERR = 1, 2, 3
STOP = Phase(script=(Step("set", "stop", 1),))
"""Phase that raises `stop`: no burst is issued afterwards."""


def end_answers(error: int = 0, address: int = 0) -> Words:
    """Expected answers to the steps of `END`."""
    return {"response": np.zeros((3, 1), np.int64), "value": np.array([[1], [error], [address]])}


def first_error(commands: Words, base: int) -> tuple[tuple[int, int, int], ...]:
    """Responses of a region: DECERR for the first commanded beat, SLVERR everywhere else."""
    first = int(commands["address"][0, 0])
    return (first, first + 1, DECERR), (base, base + REGION, SLVERR)


def random_bases(rng: np.random.Generator, address: int) -> tuple[int, int]:
    """Base addresses of two regions, aligned to `REGION`: their bits above the offset in a region all differ."""
    places = 1 << (address - REGION.bit_length() + 1)
    first = int(rng.integers(0, places))
    return first * REGION, (places - 1 - first) * REGION


def random_commands(rng: np.random.Generator, base: int, size: int, beats: int, longest: int = 200) -> Words:
    """Commands for about `beats` beats of `size` bytes, anywhere in the region at `base`.

    The first two have `longest` beats, or the region's if fewer.
    """
    places = REGION // size
    lengths = 2 * [min(longest, places)]
    while sum(lengths) < beats:
        most = int(rng.choice([1, 4, 40, 200]))
        lengths.append(int(rng.integers(1, min(most, places // 2), endpoint=True)))
    firsts = np.array([rng.integers(0, places - length, endpoint=True) for length in lengths])
    return {"address": (base + firsts * size)[:, None], "beats": np.array(lengths)[:, None]}


def byte_indices(commands: Words, base: int, size: int) -> Integers:
    """Indices into the region of the bytes of all beats, (beats, size)."""
    starts, lengths = (commands[name][:, 0] for name in ("address", "beats"))
    beats = np.concatenate([start - base + size * np.arange(n) for start, n in zip(starts, lengths, strict=True)])
    indices: Integers = beats[:, None] + np.arange(size)
    return indices
