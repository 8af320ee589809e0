"""Memory image of piecewise linear functions, a segment a word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..fixed import Integers
from ..memories.plan import MemoryShape
from .functions import SegmentTable


class Narrowest(NamedTuple):
    """Narrowest integer for a set of values: number of bits, and whether it is signed."""

    bits: int
    signed: bool

    @classmethod
    def of(cls, values: Integers) -> Narrowest:
        signed = bool(values.min() < 0)
        largest = max(int(values.max()), int(~values.min()) if signed else 0)
        return cls(largest.bit_length() + signed, signed)


@dataclass(frozen=True)
class FunctionMemory:
    """Several functions in one memory, with equal formats and bits of t; numbers of segments are powers of two."""

    functions: tuple[SegmentTable, ...]

    def __post_init__(self) -> None:
        alike = {
            (function.constant, function.slope, function.result, function.fraction, function.segment_bits)
            for function in self.functions
        }
        assert len(alike) == 1
        assert all(function.segments.bit_count() == 1 for function in self.functions)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """First address of each function; longer functions come first, so addresses are aligned."""
        addresses, address = [0] * len(self.functions), 0
        for number in sorted(range(len(addresses)), key=lambda number: -self.functions[number].segments):
            addresses[number] = address
            address += self.functions[number].segments
        return tuple(addresses)

    @property
    def aligned(self) -> int:
        """Number of fraction bits that a constant lacks against the exact sum."""
        return self.functions[0].fraction - self.functions[0].constant.fraction

    @property
    def drop(self) -> int:
        """Bits of the exact sum to round off."""
        return self.functions[0].fraction - self.functions[0].result.fraction

    @cached_property
    def columns(self) -> tuple[Integers, Integers]:
        """Constants plus half a last place for rounding, and slopes, in memory order."""
        order = sorted(range(len(self.functions)), key=self.firsts.__getitem__)
        constants, slopes = zip(*(self.functions[number].coefficients for number in order), strict=True)
        return np.concatenate(constants) + (1 << (self.drop - 1 - self.aligned)), np.concatenate(slopes)

    @cached_property
    def shapes(self) -> tuple[Narrowest, Narrowest]:
        constants, slopes = self.columns
        return Narrowest.of(constants), Narrowest.of(slopes)

    @property
    def width(self) -> int:
        """Bits of a word: constant in the low bits, slope above."""
        return sum(shape.bits for shape in self.shapes)

    @cached_property
    def contents(self) -> list[int]:
        low, high = (values & ((1 << shape.bits) - 1) for values, shape in zip(self.columns, self.shapes, strict=True))
        words: list[int] = (low | high << self.shapes[0].bits).tolist()
        return words

    @cached_property
    def saturates(self) -> bool:
        """True if a value exceeds the result's format; only the ends of each line are examined."""
        first = self.functions[0]
        begins, slopes = self.columns[0] << self.aligned, self.columns[1]
        ends = begins + slopes * ((1 << first.segment_bits) - 1)
        values = np.concatenate([begins, ends]) >> self.drop
        return bool((values > first.result.maximum).any() or (values < first.result.minimum).any())

    def memories(self, name: str, lanes: int) -> tuple[MemoryShape, ...]:
        """Memories for `lanes` arguments per cycle: two lanes share a dual-port memory."""
        depth = len(self.contents)
        pairs = MemoryShape(f"{name} of two lanes", depth, self.width, lanes // 2, reads=2, two_way=True, constant=True)
        single = MemoryShape(name, depth, self.width, constant=True)
        return (pairs,) * (lanes > 1) + (single,) * (lanes % 2)
