"""Functions of a transformer in integers: GELU, SiLU, powers of two, reciprocals, inverse square roots.

Each function is a table of lines ``c0 + c1 t``: an argument is folded into the table's range and costs one
multiplication. Tests assert the worst errors over all arguments. Integer transformers made for inference have errors a
hundred times as large, too much for the difference of two losses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower, narrow, shifted


@dataclass(frozen=True)
class SegmentTable:
    """Table of equally wide linear segments of a function.

    The upper bits of an argument select the segment, the lower bits are t. The slope is the chord's, minimax where the
    function has no inflection. The constant centres the error that the rounded slope leaves.

    Parameters
    ----------
    first : float
        Start of the first segment.
    argument_fraction : int
        Fraction bits of an argument, which counts from `first`.
    segment_bits : int
        Bits of t: a segment has ``2**segment_bits`` arguments.
    constant, slope : Format
        Formats of c0 and c1; a slope fits the 18-bit port of a DSP.
    result : Format
        Format of the value: the exact sum rounded once, half to even, and saturated.
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
        """Constants and slopes, (segments,) each."""
        steps = np.arange((1 << self.segment_bits) + 1)
        begins = np.arange(self.segments)[:, None] << self.segment_bits
        values = self.function(self.first + np.ldexp((begins + steps).astype(np.float64), -self.argument_fraction))
        width = np.ldexp(1.0, self.segment_bits - self.argument_fraction)
        slopes = self.slope.from_float((values[:, -1] - values[:, 0]) / width)
        line = self.slope.to_float(slopes)[:, None] * np.ldexp(steps.astype(np.float64), -self.argument_fraction)
        # the last step belongs to the next segment
        residue = (values - line)[:, :-1]
        return self.constant.from_float((residue.max(axis=1) + residue.min(axis=1)) / 2), slopes

    @property
    def fraction(self) -> int:
        """Fraction bits of the exact sum."""
        return self.slope.fraction + self.argument_fraction

    def __call__(self, arguments: Integers) -> Integers:
        """Values in `result` of arguments from 0 to ``segments * 2**segment_bits - 1``."""
        constants, slopes = self.coefficients
        segment, step = arguments >> self.segment_bits, arguments & ((1 << self.segment_bits) - 1)
        constants = constants << (self.fraction - self.constant.fraction)
        exact = np.take(constants, segment) + np.take(slopes, segment) * step
        return narrow(exact, self.fraction, self.result)


POWER = Format(1, 20, signed=False)
"""Format of 2**-u, from 0 to 1."""
INVERSE = Format(0, 17, signed=False)
"""Format of the mantissas of reciprocals and inverse roots, 1/2 to just below 1: a DSP's 18-bit port."""
MANTISSA = 20
"""Bits after the leading one that address a table of mantissas."""


class Inverse(NamedTuple):
    """Positive numbers ``mantissa * 2**-(17 + exponent)``; a mantissa is in the format `INVERSE` and at least 1/2."""

    mantissa: Integers
    exponent: Integers


def _gelu_tail(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    # imported late: SciPy is slow to load, and few commands build this table
    from scipy.special import ndtr

    return np.asarray(sizes * ndtr(-sizes))


_GELU = SegmentTable(_gelu_tail, 0.0, Q8_16.fraction, 512, 10, Format(1, 18), Format(2, 16), Format(1, 16))
_GELU_TANH = SegmentTable(
    lambda a: a / (1 + np.exp(np.sqrt(8 / np.pi) * (a + 0.044715 * a**3))),
    0.0,
    Q8_16.fraction,
    512,
    10,
    Format(1, 18),
    Format(2, 16),
    Format(1, 16),
)
_SILU = SegmentTable(
    lambda a: a / (1 + np.exp(a)), 0.0, Q8_16.fraction, 1024, 10, Format(1, 18), Format(2, 16), Format(1, 16)
)
TABLES = {"gelu": _GELU, "gelu-tanh": _GELU_TANH, "silu": _SILU}
"""ReLU minus the function, of an argument's magnitude; 0 after the table's end."""
POWER_TABLE = SegmentTable(lambda u: np.exp2(-u), 0.0, 16, 256, 8, Format(2, 23), Format(1, 17), POWER)
"""Powers of two of a fraction, exactly 1 at 0."""
RECIPROCAL_TABLE = SegmentTable(lambda m: 1 / m, 1.0, MANTISSA, 512, 11, Format(2, 20), Format(2, 16), INVERSE)
"""Reciprocals of a mantissa from 1 to 2."""
ROOT_TABLES = (
    SegmentTable(lambda m: 1 / np.sqrt(m), 1.0, MANTISSA, 256, 12, Format(2, 20), Format(2, 16), INVERSE),
    SegmentTable(lambda m: 1 / np.sqrt(2 * m), 1.0, MANTISSA, 256, 12, Format(2, 20), Format(2, 16), INVERSE),
)
"""Inverse square roots of a mantissa, and of twice a mantissa."""


def gelu(values: Integers) -> Integers:
    """GELU by the normal distribution, ``relu(x) - h(abs(x))``: Q8.16 to Q8.16, at most 1.5 last places off."""
    return _gated(values, _GELU)


def silu(values: Integers) -> Integers:
    """``x / (1 + exp(-x))``: Q8.16 to Q8.16, at most 1.5 last places off."""
    return _gated(values, _SILU)


def gelu_tanh(values: Integers) -> Integers:
    """GELU's tanh approximation: Q8.16 to Q8.16, at most 1.5 last places off."""
    return _gated(values, _GELU_TANH)


def _gated(values: Integers, below: SegmentTable) -> Integers:
    """ReLU minus an even function that is 0 beyond the table's end."""
    size = np.abs(values)
    end = below.segments << below.segment_bits
    rest = np.where(size < end, below(np.minimum(size, end - 1)), 0)
    result: Integers = np.maximum(values, 0) - rest
    return result


def power_of_half(exponents: Integers, fraction: int = 16) -> Integers:
    """``2**-u`` in `POWER`, at most 1.5 last places off.

    The table gives the power of u's fraction; a shift by u's integer part rounds once more. `exponents` is u with
    `fraction` fraction bits, at most 16. Raises `UserError` if u is negative.
    """
    if exponents.size and exponents.min() < 0:
        raise UserError(f"2**-u is computed for u from 0 on, not for {exponents.min()} units of 2**-{fraction}")
    units = exponents << (16 - fraction)
    # below 2**-22 the power is 0
    return shifted(POWER_TABLE(units & 0xFFFF), np.minimum(units >> 16, POWER.fraction + 2))


def reciprocal(values: Integers) -> Inverse:
    """``1 / n`` of positive integers below 2**62, relative error at most 1.3 times 2**-17."""
    octave, mantissa = normalised(values)
    return Inverse(RECIPROCAL_TABLE(mantissa), octave)


def inverse_root(values: Integers, fraction: Integers | int = 0) -> Inverse:
    """``1 / sqrt(n)`` of positive integers below 2**62, relative error at most 1.3 times 2**-17.

    `fraction` is the number of fraction bits of n, an integer or an array.
    """
    octave, mantissa = normalised(values)
    twice, odd = np.divmod(octave - fraction, 2)
    mantissas: Integers = np.where(odd, ROOT_TABLES[1](mantissa), ROOT_TABLES[0](mantissa))
    return Inverse(mantissas, twice)


def normalised(values: Integers) -> tuple[Integers, Integers]:
    """Octave of each value, and the `MANTISSA` bits after its leading one; further bits are dropped.

    Raises `UserError` if a value is not positive.
    """
    if values.size and values.min() <= 0:
        raise UserError(f"an inverse is that of a positive number, not of {values.min()}")
    octave = np.zeros_like(values)
    for bits in (32, 16, 8, 4, 2, 1):
        octave += np.where(values >> octave >= 1 << bits, bits, 0)
    rest = values - (np.int64(1) << octave)
    mantissa: Integers = (rest >> np.maximum(octave - MANTISSA, 0)) << np.maximum(MANTISSA - octave, 0)
    return octave, mantissa


def scaled(values: Integers, fraction: int, inverse: Inverse, result: Format, narrow: Narrower) -> Integers:
    """Values times inverses, rounded once, half to even, saturated to `result`.

    Values are below 2**45, with `fraction` fraction bits. Each value, or each row, has its own inverse.
    """
    shift = fraction + INVERSE.fraction + inverse.exponent - result.fraction
    return narrow(shifted(values * inverse.mantissa, shift), result, result)


ACTIVATIONS: dict[str, Callable[[Integers], Integers]] = {
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "relu": lambda values: np.maximum(values, 0),
    "silu": silu,
}
"""Activations of values with 16 fraction bits; the wider squared ReLU is computed elsewhere."""


Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Function of floats, smooth within a segment."""
