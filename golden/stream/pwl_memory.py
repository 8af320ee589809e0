"""Memory of piecewise linear functions: what the RTL reads, a segment a word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..fixed import Integers
from ..memories.plan import MemoryShape
from .functions import PiecewiseLinear


class Narrowest(NamedTuple):
    """Narrowest integer that holds all of some: its bits, and whether one is negative."""

    bits: int
    signed: bool

    @classmethod
    def of(cls, values: Integers) -> Narrowest:
        """Measure values."""
        signed = bool(values.min() < 0)
        largest = max(int(values.max()), int(~values.min()) if signed else 0)
        return cls(largest.bit_length() + signed, signed)


@dataclass(frozen=True)
class FunctionMemory:
    """Several functions in one memory: of equal formats and bits of t, each of a power of two of segments.

    Parameters
    ----------
    functions : tuple of PiecewiseLinear
    """

    functions: tuple[PiecewiseLinear, ...]

    def __post_init__(self) -> None:
        alike = {(one.constant, one.slope, one.result, one.fraction, one.segment_bits) for one in self.functions}
        assert len(alike) == 1
        assert all(one.segments.bit_count() == 1 for one in self.functions)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Place of each function's first segment: the longest comes first, so that the lower bits of a place are 0."""
        found, place = [0] * len(self.functions), 0
        for number in sorted(range(len(found)), key=lambda number: -self.functions[number].segments):
            found[number] = place
            place += self.functions[number].segments
        return tuple(found)

    @property
    def aligned(self) -> int:
        """Bits that a constant lacks of the exact sum's fraction."""
        return self.functions[0].fraction - self.functions[0].constant.fraction

    @property
    def drop(self) -> int:
        """Bits of the exact sum that are rounded off."""
        return self.functions[0].fraction - self.functions[0].result.fraction

    @cached_property
    def columns(self) -> tuple[Integers, Integers]:
        """Constants, to which half of the result's last place is added, and slopes, in the order of the memory."""
        order = sorted(range(len(self.functions)), key=self.firsts.__getitem__)
        constants, slopes = zip(*(self.functions[number].coefficients for number in order), strict=True)
        return np.concatenate(constants) + (1 << (self.drop - 1 - self.aligned)), np.concatenate(slopes)

    @cached_property
    def shapes(self) -> tuple[Narrowest, Narrowest]:
        """Bits of constants and slopes."""
        constants, slopes = self.columns
        return Narrowest.of(constants), Narrowest.of(slopes)

    @property
    def width(self) -> int:
        """Bits of a word: the constant below, the slope above."""
        return sum(one.bits for one in self.shapes)

    @cached_property
    def contents(self) -> list[int]:
        """Words of the memory."""
        low, high = (values & ((1 << one.bits) - 1) for values, one in zip(self.columns, self.shapes, strict=True))
        words: list[int] = (low | high << self.shapes[0].bits).tolist()
        return words

    @cached_property
    def saturates(self) -> bool:
        """Whether a value is beyond the result's format: a line is so at one of its ends."""
        first = self.functions[0]
        begins, slopes = self.columns[0] << self.aligned, self.columns[1]
        ends = begins + slopes * ((1 << first.segment_bits) - 1)
        values = np.concatenate([begins, ends]) >> self.drop
        return bool((values > first.result.maximum).any() or (values < first.result.minimum).any())

    def memories(self, name: str, lanes: int) -> tuple[MemoryShape, ...]:
        """Memories for so many arguments a cycle: two of them share one, through a port each."""
        depth = len(self.contents)
        pairs = MemoryShape(f"{name} of two lanes", depth, self.width, lanes // 2, reads=2, two_way=True, constant=True)
        single = MemoryShape(name, depth, self.width, constant=True)
        return (pairs,) * (lanes > 1) + (single,) * (lanes % 2)
