"""Packets in a stream with a flag `last`: samples, or blocks of values."""

import numpy as np

from .fixed import Integers


def last_flags(lengths: list[int]) -> Integers:
    """Flags `last` of packets with these lengths: (words, 1)."""
    flags = np.zeros((sum(lengths), 1), np.int64)
    flags[np.cumsum(lengths) - 1] = 1
    return flags


def packets_of(last: Integers) -> list[tuple[int, int]]:
    """First and end index of each packet, from the flags `last`, (words, 1); words after the last flag are left out."""
    ends = (np.flatnonzero(last[:, 0]) + 1).tolist()
    return list(zip([0, *ends], ends, strict=False))
