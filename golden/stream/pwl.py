"""Piecewise linear functions in integers: ``c0 + c1 t`` from a table, one multiplication an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..fixed import Format, Integers, narrow

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Function of floats, smooth within a segment."""


@dataclass(frozen=True)
class PiecewiseLinear:
    """Table of segments of equal width, and the value at any argument of them.

    The upper bits of an argument name the segment, the lower ones are t. A segment's slope is that of the chord, which
    is minimax where the function has no inflection; its constant halves what the rounded slope leaves.

    Parameters
    ----------
    function : callable
        What is approximated.
    first : float
        Begin of the first segment.
    argument_fraction : int
        Fraction bits of an argument, which counts from `first`.
    segments : int
        How many there are.
    segment_bits : int
        Bits of t: a segment has ``2**segment_bits`` arguments.
    constant, slope : Format
        Formats of c0 and c1. A slope fits the narrow port of a DSP: 18 bits.
    result : Format
        Format of the value: the exact sum is rounded once, half to even, and saturated.
    """

    function: Function
    first: float
    argument_fraction: int
    segments: int
    segment_bits: int
    constant: Format
    slope: Format
    result: Format

    @cached_property
    def coefficients(self) -> tuple[Integers, Integers]:
        """Constants and slopes, one of each a segment."""
        steps = np.arange((1 << self.segment_bits) + 1)
        begins = np.arange(self.segments)[:, None] << self.segment_bits
        values = self.function(self.first + np.ldexp((begins + steps).astype(np.float64), -self.argument_fraction))
        width = np.ldexp(1.0, self.segment_bits - self.argument_fraction)
        slopes = self.slope.from_float((values[:, -1] - values[:, 0]) / width)
        line = self.slope.to_float(slopes)[:, None] * np.ldexp(steps.astype(np.float64), -self.argument_fraction)
        # the last step begins the next segment
        residue = (values - line)[:, :-1]
        return self.constant.from_float((residue.max(axis=1) + residue.min(axis=1)) / 2), slopes

    @property
    def fraction(self) -> int:
        """Fraction bits of the exact sum."""
        return self.slope.fraction + self.argument_fraction

    def __call__(self, arguments: Integers) -> Integers:
        """Compute values of `result`.

        Parameters
        ----------
        arguments : array of int
            From 0 to ``segments * 2**segment_bits - 1``.
        """
        constants, slopes = self.coefficients
        segment, step = arguments >> self.segment_bits, arguments & ((1 << self.segment_bits) - 1)
        constants = constants << (self.fraction - self.constant.fraction)
        exact = np.take(constants, segment) + np.take(slopes, segment) * step
        return narrow(exact, self.fraction, self.result)
