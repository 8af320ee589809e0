"""Rows of deltas and offsets, and their order in a perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..fixed import Q4_12, Integers
from ..memories.plan import MemoryShape
from .deltas import DELTA

BIAS_LUT_ROWS = 128
"""Largest number of rows of bias offsets in LUT RAM."""


class Deadline(NamedTuple):
    """The first `words` words of a perturbation must have offsets before `cycle` of a pass, which uses the last one."""

    words: int
    cycle: int


class BiasGroups(NamedTuple):
    """Contiguous groups of output channels whose biases share a row: first group, number of groups."""

    first: int
    size: int


@dataclass(frozen=True)
class RowRange:
    """Rows of a perturbation's words in order: first biases, then weights.

    `deadlines` tell when a pass uses words, at least the first one.
    """

    biases: range
    weights: range
    deadlines: tuple[Deadline, ...]

    def __len__(self) -> int:
        return len(self.biases) + len(self.weights)

    @property
    def numbers(self) -> Integers:
        """Rows in the order of the words."""
        return np.concatenate([np.arange(run.start, run.stop) for run in (self.biases, self.weights)])

    def words_before_pass(self, cycles: int) -> int:
        """Words with offsets required before a pass, if each takes `cycles` cycles to make."""
        return max(words - cycle // cycles for words, cycle in self.deadlines)


@dataclass(frozen=True)
class Rows:
    """Rows of the deltas and offsets of all words.

    Parameters
    ----------
    whole : RowRange
        All rows.
    cuts : tuple of (RowRange, RowRange)
        Rows of the first and of the second part, for each cut from 1 on.
    words : int
        Words of a perturbation of all parameters: the number of rows, or more if words share rows.
    bias_groups : tuple of BiasGroups
        Groups of each row of biases.
    most_groups : int
        Maximum number of groups in a row of biases.
    columns : int
        Biases of a group.
    weight_rows : int
        Rows of each word of the weight memory, a power of two.
    period : int
        Folding period, one less than a power of two: word w has row ``w mod period``; 0 if each word has its own row.
    """

    whole: RowRange
    cuts: tuple[tuple[RowRange, RowRange], ...]
    words: int
    bias_groups: tuple[BiasGroups, ...]
    most_groups: int
    columns: int
    weight_rows: int = 1
    period: int = 0

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def groups(self) -> int:
        return sum(groups.size for groups in self.bias_groups)


def delta_memory(rows: int, width: int, shared_rows: int = 0) -> MemoryShape:
    """Memory of `rows` rows of `width` deltas, and of `shared_rows` rows of another component on the write port."""
    depth = 2 << (max(rows, shared_rows) - 1).bit_length() if shared_rows else rows
    return MemoryShape(
        "deltas",
        depth,
        width * DELTA.width,
        reads=1 + (shared_rows > 0),
        two_way=shared_rows > 0,
        lut_rows=0,
        ultra=True,
    )


def offset_memories(rows: Rows, n: int, parts: int) -> tuple[MemoryShape, ...]:
    """Memories for the offsets of both sides' weights: one for each part of a row; the last part may be narrower."""
    width, words = -(-n // parts), rows.period or len(rows.whole.weights) // rows.weight_rows
    depth, last = 2 << (words - 1).bit_length(), n - (parts - 1) * width
    whole = parts if last == width else parts - 1
    shapes = [("offsets", width, whole), ("offsets, last part", last, parts - whole)]
    return tuple(
        MemoryShape(name, depth, numbers * Q4_12.width, count * rows.weight_rows, lut_rows=0, ultra=True)
        for name, numbers, count in shapes
        if count
    )


def bias_offset_memory(rows: Rows) -> MemoryShape:
    """Memory for the offsets of both sides' biases, one group per word."""
    depth = 2 << (rows.groups - 1).bit_length()
    return MemoryShape("offsets of biases", depth, rows.columns * Q4_12.width, lut_rows=BIAS_LUT_ROWS, ultra=True)
