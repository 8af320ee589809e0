"""Streams that a flag `last` cuts into packets: samples, or blocks of values."""

import numpy as np

from .fixed import Integers


def last_flags(lengths: list[int]) -> Integers:
    """The flag `last` of packets of these lengths: (words, 1)."""
    flags = np.zeros((sum(lengths), 1), np.int64)
    flags[np.cumsum(lengths) - 1] = 1
    return flags


def packets_of(last: Integers) -> list[tuple[int, int]]:
    """Where each packet begins and ends, by its flags; words behind the last flag belong to none."""
    ends = (np.flatnonzero(last[:, 0]) + 1).tolist()
    return list(zip([0, *ends], ends, strict=False))
