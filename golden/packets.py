"""Streams that a flag `last` cuts into packets: samples, or blocks of values."""

import numpy as np

from .fixed import Integers


def random_lengths(rng: np.random.Generator, words: int, longest: int) -> list[int]:
    """Lengths of 1 to `longest`, `words` in all; the shortest two and the longest are as frequent as all the others.

    A short packet behind a long one meets a block that still has its hands full.
    """
    lengths: list[int] = []
    while (left := words - sum(lengths)) > 0:
        length = int(rng.choice([1, min(2, longest), longest, int(rng.integers(1, longest, endpoint=True))]))
        lengths.append(min(length, left))
    return lengths


def last_flags(lengths: list[int]) -> Integers:
    """The flag `last` of packets of these lengths: (words, 1)."""
    flags = np.zeros((sum(lengths), 1), np.int64)
    flags[np.cumsum(lengths) - 1] = 1
    return flags


def packets_of(last: Integers) -> list[tuple[int, int]]:
    """Where each packet begins and ends, by its flags; words behind the last flag belong to none."""
    ends = (np.flatnonzero(last[:, 0]) + 1).tolist()
    return list(zip([0, *ends], ends, strict=False))
