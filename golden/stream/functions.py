"""Functions of a transformer in integers: GELU, SiLU, powers of two, reciprocals, inverse square roots.

Each is a piecewise linear function ``c0 + c1 t`` from a table, one multiplication an argument, with what folds an
argument into its range. Worst errors are over all arguments, and are asserted by tests. Those of published integer
transformers, made for inference, are a hundred times as large, which a difference of two losses does not bear.
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


POWER = Format(1, 20, signed=False)
"""Format of 2**-u: from 0 to 1."""
INVERSE = Format(0, 17, signed=False)
"""Format of a reciprocal's and an inverse square root's mantissa, from 1/2 to just below 1: a DSP's narrow port."""
MANTISSA = 20
"""Bits behind the leading one that address a table of mantissas."""


class Inverse(NamedTuple):
    """Positive numbers ``mantissa * 2**-(17 + exponent)``.

    Parameters
    ----------
    mantissa : array of int64
        `INVERSE`, at least 1/2.
    exponent : array of int64
    """

    mantissa: Integers
    exponent: Integers


def _gelu_tail(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """GELU's difference from a ReLU, of magnitudes."""
    # where the table is made, and not by every command that knows the block
    from scipy.special import ndtr

    return np.asarray(sizes * ndtr(-sizes))


_GELU = PiecewiseLinear(_gelu_tail, 0.0, Q8_16.fraction, 512, 10, Format(1, 18), Format(2, 16), Format(1, 16))
_GELU_TANH = PiecewiseLinear(
    lambda a: a / (1 + np.exp(np.sqrt(8 / np.pi) * (a + 0.044715 * a**3))),
    0.0,
    Q8_16.fraction,
    512,
    10,
    Format(1, 18),
    Format(2, 16),
    Format(1, 16),
)
_SILU = PiecewiseLinear(
    lambda a: a / (1 + np.exp(a)), 0.0, Q8_16.fraction, 1024, 10, Format(1, 18), Format(2, 16), Format(1, 16)
)
TABLES = {"gelu": _GELU, "gelu-tanh": _GELU_TANH, "silu": _SILU}
"""Difference of a ReLU and a function, of an argument's magnitude; 0 behind the table's end."""
POWER_TABLE = PiecewiseLinear(lambda u: np.exp2(-u), 0.0, 16, 256, 8, Format(2, 23), Format(1, 17), POWER)
"""Powers of two of a fraction: exactly 1 at 0."""
RECIPROCAL_TABLE = PiecewiseLinear(lambda m: 1 / m, 1.0, MANTISSA, 512, 11, Format(2, 20), Format(2, 16), INVERSE)
"""Reciprocals of a mantissa from 1 to 2."""
ROOT_TABLES = (
    PiecewiseLinear(lambda m: 1 / np.sqrt(m), 1.0, MANTISSA, 256, 12, Format(2, 20), Format(2, 16), INVERSE),
    PiecewiseLinear(lambda m: 1 / np.sqrt(2 * m), 1.0, MANTISSA, 256, 12, Format(2, 20), Format(2, 16), INVERSE),
)
"""Inverse square roots of a mantissa, and of twice a mantissa."""


def gelu(values: Integers) -> Integers:
    """Compute x times the normal distribution's probability below x, as ``relu(x) - h(abs(x))``.

    Parameters
    ----------
    values : array of int
        Q8.16.

    Returns
    -------
    array of int64
        Q8.16, at most 1.5 last places off.
    """
    return _gated(values, _GELU)


def silu(values: Integers) -> Integers:
    """Compute ``x / (1 + exp(-x))``, as `gelu` does: Q8.16, at most 1.5 last places off."""
    return _gated(values, _SILU)


def gelu_tanh(values: Integers) -> Integers:
    """Compute GELU's approximation by a hyperbolic tangent, as `gelu` does: Q8.16, at most 1.5 last places off."""
    return _gated(values, _GELU_TANH)


def _gated(values: Integers, below: PiecewiseLinear) -> Integers:
    """Subtract from a ReLU what is even in x and vanishes behind the table's end."""
    size = np.abs(values)
    end = below.segments << below.segment_bits
    rest = np.where(size < end, below(np.minimum(size, end - 1)), 0)
    result: Integers = np.maximum(values, 0) - rest
    return result


def power_of_half(exponents: Integers, fraction: int = 16) -> Integers:
    """Compute ``2**-u``: the table gives that of u's fraction, which is shifted by its integer, and rounded once more.

    Parameters
    ----------
    exponents : array of int
        u, not negative.
    fraction : int
        Its fraction bits, at most 16.

    Returns
    -------
    array of int64
        `POWER`, at most 1.5 last places off.

    Raises
    ------
    UserError
        If u is negative.
    """
    if exponents.size and exponents.min() < 0:
        raise UserError(f"2**-u is computed for u from 0 on, not for {exponents.min()} units of 2**-{fraction}")
    units = exponents << (16 - fraction)
    # below 2**-22 all is 0
    return shifted(POWER_TABLE(units & 0xFFFF), np.minimum(units >> 16, POWER.fraction + 2))


def reciprocal(values: Integers) -> Inverse:
    """Compute ``1 / n`` of positive integers below 2**62.

    Returns
    -------
    Inverse
        At most 1.3 times 2**-17 of it off.
    """
    octave, mantissa = normalised(values)
    return Inverse(RECIPROCAL_TABLE(mantissa), octave)


def inverse_root(values: Integers, fraction: Integers | int = 0) -> Inverse:
    """Compute ``1 / sqrt(n)`` of positive numbers.

    Parameters
    ----------
    values : array of int
        Positive, below 2**62.
    fraction : int or array of int
        Their fraction bits.

    Returns
    -------
    Inverse
        At most 1.3 times 2**-17 of it off.
    """
    octave, mantissa = normalised(values)
    twice, odd = np.divmod(octave - fraction, 2)
    found: Integers = np.where(odd, ROOT_TABLES[1](mantissa), ROOT_TABLES[0](mantissa))
    return Inverse(found, twice)


def normalised(values: Integers) -> tuple[Integers, Integers]:
    """Find the place of the leading one, and the `MANTISSA` bits behind it; further ones are dropped.

    Raises
    ------
    UserError
        If a value is not positive.
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
    """Multiply by inverses, and round once, half to even.

    Parameters
    ----------
    values : array of int
        Below 2**45.
    fraction : int
        Their fraction bits.
    inverse : Inverse
        For each value, or one a row.
    result : Format
        Saturated.
    narrow : Narrower
        Counts what saturates.
    """
    shift = fraction + INVERSE.fraction + inverse.exponent - result.fraction
    return narrow(shifted(values * inverse.mantissa, shift), result, result)


ACTIVATIONS: dict[str, Callable[[Integers], Integers]] = {
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "relu": lambda values: np.maximum(values, 0),
    "silu": silu,
}
"""Activations of values of 16 fraction bits by name; a square, which is wider, is none of them."""


Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Function of floats, smooth within a segment."""
