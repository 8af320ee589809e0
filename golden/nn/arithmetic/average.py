"""Average of a window's activations: exact sum, one division, rounded half to even."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...errors import UserError
from ...fixed import Q8_16, Format, Integers
from .multipliers import takes_dsp

NUMERATOR_PART, MULTIPLIER_PART = 26, 17
"""Bits of the operands of one DSP slice where they are unsigned."""


def average(sums: Integers, count: int) -> Integers:
    """Divide sums of `count` integers by their number, to the nearest integer, ties to even.

    An average is never outside the integers' own format, so that nothing saturates.
    """
    quotient, rest = np.divmod(sums, count)
    result: Integers = quotient + (2 * rest + (quotient & 1) > count)
    return result


@dataclass(frozen=True)
class Reciprocal:
    """Division by a constant as hardware does it: one multiplication, whose low bits tell a tie.

    With ``numerator = sum + count * 2**(width - 1) + count // 2``, which is not negative, ``product = numerator *
    multiplier``: its bits from `shift` on are the quotient rounded half up, plus ``2**(width - 1)``. If the count is
    even and the low `shift` bits are less than `multiplier`, it was a tie, and the quotient's lowest bit becomes 0.

    Why this is exact: let ``multiplier * count = 2**shift + error`` and ``numerator = q * count + r`` with ``r <
    count``. The product is ``q * 2**shift + low`` with ``low = q * error + r * multiplier``. The shift is the least for
    which `error` times the largest numerator is below ``2**shift``. Then ``low = (numerator * error + r * 2**shift) /
    count`` is below ``2**shift``: q is the bits from `shift` on. And ``q * error < 2**shift / count <= multiplier``:
    the low bits are less than the multiplier where r = 0, and nowhere else. That is a tie of an even count, as half of
    it was added; an odd count has no ties.

    Parameters
    ----------
    count : int
        Values of a window, at least 1.
    activation : Format
        Of the values, of at least 2 bits: then ``2**(width - 1)`` is even, and leaves a quotient even or odd.

    Attributes
    ----------
    numerator_bits : int
        Width of the unsigned numerator.
    multiplier : int
        Unsigned constant; 1 for a count that is a power of two.
    shift : int
        Low bits of the product below the quotient.
    """

    count: int
    activation: Format = Q8_16
    numerator_bits: int = field(init=False)
    multiplier: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"an average is of at least 1 value, not {self.count}")
        largest = self.count * ((1 << self.activation.width) - 1) + self.count // 2
        shift = 0
        while (-(1 << shift) % self.count) * largest >= 1 << shift:
            shift += 1
        object.__setattr__(self, "numerator_bits", largest.bit_length())
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "multiplier", -(-(1 << shift) // self.count))

    @property
    def parts(self) -> tuple[int, int]:
        """Parts of numerator and multiplier that one DSP slice multiplies, 26 and 17 bits; none where one only shifts.

        Numerator and multiplier are unsigned, and the slice's operands, of 27 and 18 bits, signed.
        """
        if self.multiplier == 1:
            return (0, 0)
        return -(-self.numerator_bits // NUMERATOR_PART), -(-self.multiplier.bit_length() // MULTIPLIER_PART)

    @property
    def dsps(self) -> int:
        """DSPs of the products of all parts."""
        across, down = self.parts
        widths = [min(NUMERATOR_PART, self.numerator_bits - i * NUMERATOR_PART) for i in range(across)]
        factors = [self.multiplier >> j * MULTIPLIER_PART & (1 << MULTIPLIER_PART) - 1 for j in range(down)]
        return sum(takes_dsp(width, factor) for width in widths for factor in factors if factor)

    @property
    def latency(self) -> int:
        """Cycles of a division in hardware: operands, products, levels of their sum, quotient."""
        count = self.parts[0] * self.parts[1]
        return 3 + (count - 1).bit_length() if count else 1

    @property
    def offset(self) -> int:
        """Constant that makes a numerator of a sum."""
        return (self.count << (self.activation.width - 1)) + self.count // 2

    def divide(self, sums: Integers) -> Integers:
        """Compute `average` of the sums by multiplication; a product may have more than 64 bits."""
        products = (sums.astype(object) + self.offset) * self.multiplier
        quotients, low = products >> self.shift, products & ((1 << self.shift) - 1)
        odd_ties = (low < self.multiplier) & (quotients & 1 == 1) if self.count % 2 == 0 else False
        result: Integers = (quotients - odd_ties - (1 << (self.activation.width - 1))).astype(np.int64)
        return result
