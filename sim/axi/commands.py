"""Random commands of `axi_read` and `axi_write` to a region of memory, and the steps that end their phases."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Integers
from ..phase import Phase, Step

REGION = 1 << 15
"""Bytes of the memory that a scenario uses."""
PATIENCE = 10_000
"""Cycles that a scenario waits for the last response."""
END = (Step("until", "idle", PATIENCE), Step("get", "idle"), Step("get", "error"), Step("get", "error_address"))
"""Steps at the end of a phase: what the block says once nothing is in progress."""
EXOKAY, SLVERR, DECERR = 1, 2, 3
STOP = Phase(script=(Step("set", "stop", 1),))
"""Phase behind which no burst is issued."""


def end_answers(error: int = 0, address: int = 0) -> Words:
    """Give the expected values of the steps of `END`."""
    return {"response": np.zeros((3, 1), np.int64), "value": np.array([[1], [error], [address]])}


def first_error(commands: Words, base: int) -> tuple[tuple[int, int, int], ...]:
    """Make all of the region answer with an error, and the first beat of all with another one than the rest."""
    first = int(commands["address"][0, 0])
    return (first, first + 1, DECERR), (base, base + REGION, SLVERR)


def random_bases(rng: np.random.Generator, address: int) -> tuple[int, int]:
    """Draw first byte addresses of two regions, multiples of its size, that differ in all the other `address` bits."""
    places = 1 << (address - REGION.bit_length() + 1)
    first = int(rng.integers(0, places))
    return first * REGION, (places - 1 - first) * REGION


def random_commands(rng: np.random.Generator, base: int, size: int, beats: int, longest: int = 200) -> Words:
    """Draw commands for about so many beats, of `size` bytes each, anywhere in the region from `base` on.

    The first two have `longest` beats, or as many as the region.
    """
    places = REGION // size
    lengths = 2 * [min(longest, places)]
    while sum(lengths) < beats:
        most = int(rng.choice([1, 4, 40, 200]))
        lengths.append(int(rng.integers(1, min(most, places // 2), endpoint=True)))
    firsts = np.array([rng.integers(0, places - length, endpoint=True) for length in lengths])
    return {"address": (base + firsts * size)[:, None], "beats": np.array(lengths)[:, None]}


def byte_indices(commands: Words, base: int, size: int) -> Integers:
    """Indices into the region of the bytes of all commands' beats, (beats, size)."""
    starts, lengths = (commands[name][:, 0] for name in ("address", "beats"))
    beats = np.concatenate([start - base + size * np.arange(n) for start, n in zip(starts, lengths, strict=True)])
    indices: Integers = beats[:, None] + np.arange(size)
    return indices
