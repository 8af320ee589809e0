"""Random commands of `axi_read` and `axi_write` to a region of memory, and the steps that end their phases."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Integers
from ..phase import Step

REGION = 1 << 15
"""Bytes of the memory that a scenario uses."""
END = (Step("get", "idle"), Step("get", "error"), Step("get", "error_address"))
"""Steps at the end of a phase: nothing in progress, no error."""
END_ANSWERS = {"response": np.zeros((3, 1), np.int64), "value": np.array([[1], [0], [0]])}
"""Expected value of the steps of `END`."""


def random_base(rng: np.random.Generator, address: int) -> int:
    """Draw the region's first byte address, of `address` bits, a multiple of its size."""
    return int(rng.integers(0, 1 << (address - 15))) * REGION


def random_commands(rng: np.random.Generator, base: int, size: int, beats: int) -> Words:
    """Draw commands for about so many beats, of `size` bytes each, anywhere in the region from `base` on."""
    places = REGION // size
    lengths: list[int] = []
    while sum(lengths) < beats:
        longest = int(rng.choice([1, 4, 40, 200]))
        lengths.append(int(rng.integers(1, min(longest, places // 2), endpoint=True)))
    firsts = np.array([rng.integers(0, places - length, endpoint=True) for length in lengths])
    return {"address": (base + firsts * size)[:, None], "beats": np.array(lengths)[:, None]}


def byte_indices(commands: Words, base: int, size: int) -> Integers:
    """Indices into the region of the bytes of all commands' beats, (beats, size)."""
    starts, lengths = (commands[name][:, 0] for name in ("address", "beats"))
    beats = np.concatenate([start - base + size * np.arange(n) for start, n in zip(starts, lengths, strict=True)])
    indices: Integers = beats[:, None] + np.arange(size)
    return indices
