"""Fixed-point numbers as integers: formats, narrowing, exact matrix products.

A number is an integer with a `Format`; its value is ``integer / 2**fraction``. Products and sums are exact; only
`narrow` drops bits, with a named rounding and a named overflow mode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UserError

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]

_EXACT_FLOAT = 1 << 53
_EXACT_INT = 1 << 63


class Rounding(StrEnum):
    """Rounding of the bits below the target's last bit."""

    HALF_EVEN = "half-even"
    """To nearest, ties to even: no bias. The default everywhere."""
    HALF_UP = "half-up"
    """To nearest, ties towards plus infinity: biased by half a step on every tie."""
    TRUNCATE = "truncate"
    """Towards minus infinity, a plain arithmetic shift: biased by half a step on average."""
    STOCHASTIC = "stochastic"
    """Upwards with a probability equal to the dropped fraction; needs random bits."""


class Overflow(StrEnum):
    """Treatment of a value outside the target's range."""

    SATURATE = "saturate"
    """Clip to the nearest end of the range. The default everywhere."""
    WRAP = "wrap"
    """Modulo 2**width: additions can be undone exactly."""


@dataclass(frozen=True)
class Format:
    """Fixed-point format, written ``Q8.16`` (signed, two's complement) or ``U2.6`` (unsigned).

    `integer` is the bits before the binary point, *including* the sign bit of a signed format, `fraction` the bits
    after. Raises `UserError` if a number of bits is negative, or the width is not in 1 to 62.
    """

    integer: int
    fraction: int
    signed: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 62:
            raise UserError(f"a format has 1 to 62 bits in all, not {self.width} ({self})")
        if self.fraction < 0 or self.integer < 0:
            raise UserError(f"a format's bits are counted from 0, not {self.integer}.{self.fraction}")

    @classmethod
    def parse(cls, text: str) -> Format:
        """Format of a text such as ``Q8.16`` or ``U2.6``.

        Raises `UserError` if the text has another form.
        """
        match = re.fullmatch(r"([QU])(\d+)\.(\d+)", text)
        if not match:
            raise UserError(f"{text!r} is not a format: write Q8.16 for signed, U2.6 for unsigned")
        return cls(int(match[2]), int(match[3]), match[1] == "Q")

    @classmethod
    def up_to(cls, most: int) -> Format:
        """Narrowest format of the integers from 0 to `most`."""
        return cls(most.bit_length(), 0, signed=False)

    def __str__(self) -> str:
        return f"{'Q' if self.signed else 'U'}{self.integer}.{self.fraction}"

    @property
    def width(self) -> int:
        return self.integer + self.fraction

    @property
    def minimum(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        return (1 << (self.width - self.signed)) - 1

    def to_float(self, values: ArrayLike) -> NDArray[np.float64]:
        """Values of integers of this format, in float64."""
        return np.asarray(np.ldexp(np.asarray(values, np.float64), -self.fraction))

    def from_float(self, values: ArrayLike) -> Integers:
        """Nearest integers of this format, ties to even, saturated.

        Raises `UserError` if a value is NaN.
        """
        values = np.asarray(values, np.float64)
        if np.isnan(values).any():
            raise UserError(f"NaN has no {self} integer: clean the data first")
        scaled = np.rint(np.ldexp(values, self.fraction))
        integers: Integers = np.clip(scaled, self.minimum, self.maximum).astype(np.int64)
        return integers


Q8_16 = Format(8, 16)
"""Format of activations."""
Q4_12 = Format(4, 12)
"""Format of parameters and gradients."""


def q8_16_of_bytes(values: ArrayLike) -> Integers:
    """Q8.16 of p / 255 for bytes p, to nearest: p * 257 plus the top bit of p."""
    pixels = np.asarray(values, np.int64)
    converted: Integers = pixels * 257 + (pixels >> 7)
    return converted


def narrow(
    values: ArrayLike,
    source: Format | int,
    target: Format,
    rounding: Rounding = Rounding.HALF_EVEN,
    overflow: Overflow = Overflow.SATURATE,
    noise: ArrayLike | None = None,
) -> Integers:
    """Integers converted from one format to another; the only function that drops bits.

    Raises `UserError` if noise does not fit the rounding, more than 62 bits are dropped, or a widening overflows 64
    bits.

    Parameters
    ----------
    values : array of int
        Exact integers, possibly outside `target` and `source`; only the fraction of `source` is used.
    source : Format or int
        Format of `values`, or its number of fraction bits.
    target : Format
        Format of the result.
    rounding, overflow : Rounding, Overflow
        Half to even and saturate by default.
    noise : array of int, optional
        Random bits for stochastic rounding: uniform integers of ``source.fraction - target.fraction`` bits.
    """
    result = _rounded(values, source, target, rounding, noise)
    if overflow is Overflow.SATURATE:
        clipped: Integers = np.clip(result, target.minimum, target.maximum)
        return clipped
    return _wrap(result, target)


def count_saturated(
    values: ArrayLike,
    source: Format | int,
    target: Format,
    rounding: Rounding = Rounding.HALF_EVEN,
    noise: ArrayLike | None = None,
) -> int:
    """Number of values clipped by a saturating `narrow` with these arguments."""
    result = _rounded(values, source, target, rounding, noise)
    return int(np.count_nonzero((result < target.minimum) | (result > target.maximum)))


class Narrower:
    """Narrowing, half to even with saturation, and counter of clipped values like the hardware's status register.

    Attributes
    ----------
    saturations : int
        Values clipped so far.
    named : Counter of str
        Values clipped at the places named by `note`.
    """

    def __init__(self) -> None:
        self.saturations = 0
        self.named: Counter[str] = Counter()

    def note(self, place: str, count: int) -> None:
        """Count values clipped at a place."""
        self.saturations += count
        if count:
            self.named[place] += count

    def __call__(
        self, values: ArrayLike, source: Format | int, target: Format, noise: ArrayLike | None = None
    ) -> Integers:
        """Narrow values; with `noise`, stochastically."""
        rounding = Rounding.HALF_EVEN if noise is None else Rounding.STOCHASTIC
        result = narrow(values, source, target, rounding, noise=noise)
        if result.size and (result.max() == target.maximum or result.min() == target.minimum):
            self.saturations += count_saturated(values, source, target, rounding, noise)
        return result


def _rounded(
    values: ArrayLike, source: Format | int, target: Format, rounding: Rounding, noise: ArrayLike | None
) -> Integers:
    values = np.asarray(values, np.int64)
    shift = (source if isinstance(source, int) else source.fraction) - target.fraction
    if (noise is None) == (rounding is Rounding.STOCHASTIC):
        raise UserError(f"{rounding} rounding {'needs' if noise is None else 'takes no'} random bits")
    if shift > 62:
        raise UserError(f"a narrowing drops at most 62 bits, not {shift}")
    if shift > 0:
        return _drop(values, shift, rounding, noise)
    bound = _EXACT_INT >> -shift
    if values.size and (values.max() >= bound or values.min() < -bound):
        raise UserError(f"widening by {-shift} bits overflows 64-bit integers")
    return values << -shift


def divided(values: Integers, divisor: int) -> Integers:
    """Quotients to the nearest integer, ties to even."""
    quotient, rest = np.divmod(values, divisor)
    result: Integers = quotient + (2 * rest + (quotient & 1) > divisor)
    return result


def shifted(values: Integers, shifts: Integers) -> Integers:
    """Values without their `shifts` low bits, rounded half to even; negative shifts append zeros.

    The shifts are at most 62 and broadcast with `values`, as in a barrel shifter.
    """
    dropped = _drop(values, np.maximum(shifts, 1), Rounding.HALF_EVEN, None)
    rounded: Integers = np.where(shifts > 0, dropped, values)
    result: Integers = rounded << np.maximum(-shifts, 0)
    return result


def _drop(values: Integers, shift: int | Integers, rounding: Rounding, noise: ArrayLike | None) -> Integers:
    floor = values >> shift
    rest = values & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    if rounding is Rounding.TRUNCATE:
        return floor
    if rounding is Rounding.HALF_EVEN:
        # a tie rounds up if the integer below is odd; one sum is the fastest form
        return floor + ((rest + (floor & 1) + (half - 1)) >> shift)
    if rounding is Rounding.HALF_UP:
        return floor + (rest >= half)
    # the sum may carry past 64 bits, the comparison cannot
    result: Integers = floor + (np.asarray(noise, np.int64) >= (1 << shift) - rest)
    return result


def _wrap(values: Integers, target: Format) -> Integers:
    low_bits = values & ((1 << target.width) - 1)
    if not target.signed:
        return low_bits
    sign = 1 << (target.width - 1)
    return (low_bits ^ sign) - sign


def accumulator_width(a: Format, b: Format, terms: int) -> int:
    """Width of a signed accumulator for any sum of `terms` products of `a` and `b`.

    The worst case decides: 3,072 products of Q8.16 and Q4.12 need 51 bits.
    """
    ends = [x * y for x in (a.minimum, a.maximum) for y in (b.minimum, b.maximum)]
    low, high = terms * min(ends), terms * max(ends)
    return max(high.bit_length(), (~low).bit_length() if low < 0 else 0) + 1


def _blas(a: Integers, b: Integers) -> Integers:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def matmul(a: ArrayLike, b: ArrayLike, in_float: Callable[[Integers, Integers], Integers] = _blas) -> Integers:
    """Exact integer matrix product, in float64 (`in_float`) if no partial sum can reach 2**53, else in int64.

    Raises `UserError` if a sum could exceed int64.
    """
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    bound = a.shape[-1] * _magnitude(a) * _magnitude(b)
    if bound < _EXACT_FLOAT:
        return in_float(a, b)
    if bound < _EXACT_INT:
        product: Integers = a @ b
        return product
    raise UserError(f"a sum of {a.shape[-1]} such products may reach {bound}, beyond 64 bits: narrow first")


def _magnitude(values: Integers) -> int:
    return max(int(values.max()), -int(values.min())) if values.size else 0
