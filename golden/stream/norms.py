"""Layer norm, RMS norm and L2 norm in integers: exact sums of x and x^2, one inverse square root per row.

The sums grow while a row is written, so a norm reads the row once. The variance is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower, divided, shifted
from .functions import MANTISSA, inverse_root, normalised, scaled

Q11_16 = Format(11, 16)
"""Format of residual sums and of a norm's inputs: a DSP's 27-bit port."""
NORMALISED = Format(7, 17)
"""Format of normalised values, at most the square root of the features."""
LARGEST_HIDDEN = 4096
"""Largest number of features: `NORMALISED` holds its square root."""
_FEATURES_OF_62_BITS = 1024
"""Number of features below which a sum of squares of Q11.16 is at most 2**62."""
_COUNT_BITS = 24
"""Bits of the constant 1 / features."""


@dataclass(frozen=True)
class Norm:
    """Layer norm or RMS norm of rows of features.

    Raises `UserError` if `features`, `eps` or `form` is out of range.

    Parameters
    ----------
    features : int
        From 1 to `LARGEST_HIDDEN`.
    eps : float
        Added to the variance, from 0 to below 1.
    centred : bool
        True for layer norm; RMS norm does not subtract the mean.
    form : Format
        Format of the inputs, at most 27 bits.
    """

    features: int
    eps: float
    centred: bool = True
    form: Format = Q11_16

    def __post_init__(self) -> None:
        if self.form.width > Q11_16.width:
            raise UserError(f"a norm's inputs have at most {Q11_16.width} bits, not those of {self.form}")
        if not 1 <= self.features <= LARGEST_HIDDEN:
            raise UserError(
                f"a norm has 1 to {LARGEST_HIDDEN} features, not {self.features}: what it divides is {NORMALISED}"
            )
        if not 0 <= self.eps < 1:
            raise UserError(f"a norm's eps is from 0 to less than 1, not {self.eps}")

    @cached_property
    def least(self) -> int:
        """Epsilon as a sum of squares, in units of a squared input; at least 1, so rows of zeros have an inverse."""
        return max(1, round(self.features * self.eps * 2.0 ** (2 * self.form.fraction)))

    @cached_property
    def share(self) -> tuple[int, int]:
        """The constant 1 / features: integer of 24 bits, number of fraction bits."""
        fraction = _COUNT_BITS - 1 + (self.features - 1).bit_length()
        return round((1 << fraction) / self.features), fraction

    @property
    def constants(self) -> NormConstants:
        return NormConstants(self.features, self.centred, *self.share, self.least)

    def normalised(self, rows: Integers, narrow: Narrower) -> Integers:
        """Rows divided by their deviation, see `NormConstants.normalised`."""
        return self.constants.normalised(rows, narrow)

    def run(
        self,
        rows: Integers,
        gamma: Integers,
        beta: Integers | None,
        gain: Format,
        narrow: Narrower,
        result: Format = Q8_16,
    ) -> Integers:
        """Norm with factors and biases, see `NormConstants.run`."""
        return self.constants.run(rows, gamma, beta, gain, narrow, result)


@dataclass(frozen=True)
class NormConstants:
    """Integer constants of a norm, as the hardware uses them.

    The fraction bits of the inputs cancel: a row is divided by its own deviation. `share` is the constant 1 / features,
    of 24 bits with `share_fraction` fraction bits. `least`, 1 to 48 bits, is added to the sum of squares.
    """

    features: int
    centred: bool
    share: int
    share_fraction: int
    least: int

    def normalised(self, rows: Integers, narrow: Narrower) -> Integers:
        """Rows divided by their deviation, without the mean if `centred`: (rows, features) in `NORMALISED`.

        `rows` has at most 27 bits; `narrow` counts saturations.
        """
        sums = rows.sum(axis=1, keepdims=True)
        mean = divided(sums, self.features) if self.centred else np.zeros_like(sums)
        octave, mantissa = self._deviation(rows, sums, mean)
        quotient = ((1 << MANTISSA) + mantissa) * self.share
        inverse = inverse_root(quotient, self.share_fraction + MANTISSA - octave)
        return scaled(rows - mean, 0, inverse, NORMALISED, narrow)

    def _deviation(self, rows: Integers, sums: Integers, mean: Integers) -> tuple[Integers, Integers]:
        """Octave and mantissa of the exact sum of squares about the mean plus `least`, at most 65 bits."""
        squares = rows * rows
        if self.features <= _FEATURES_OF_62_BITS:
            # terms may exceed 63 bits, but their total does not
            about = squares.sum(axis=1, keepdims=True) - 2 * mean * sums + self.features * mean * mean
            return normalised(about + self.least)
        # unbounded integers; the sum of squares has two halves, as in the hardware
        high, low = ((half.sum(axis=1, keepdims=True)).astype(object) for half in (squares >> 32, squares & 0xFFFFFFFF))
        mean, sums = mean.astype(object), sums.astype(object)
        total = (high << 32) + low - 2 * mean * sums + self.features * mean * mean + self.least
        # the dropped bits are below the mantissa's
        dropped = np.where(total >= 1 << 62, 4, 0)
        octave, mantissa = normalised((total >> dropped).astype(np.int64))
        return octave + dropped, mantissa

    def run(
        self,
        rows: Integers,
        gamma: Integers,
        beta: Integers | None,
        gain: Format,
        narrow: Narrower,
        result: Format = Q8_16,
    ) -> Integers:
        """Norm with factors and biases, (rows, features) in `result`; ``n * gamma + beta`` is exact and rounded once.

        Rows have at most 27 bits, factors (features,) the 18-bit format `gain`, biases (features,) Q8.16.
        """
        fraction = NORMALISED.fraction + gain.fraction
        exact = self.normalised(rows, narrow) * gamma
        if beta is not None:
            exact += beta << (fraction - Q8_16.fraction)
        return narrow(exact, fraction, result)


def unit_rows(rows: Integers, narrow: Narrower) -> Integers:
    """Rows divided by their L2 norm, (rows, features) in Q8.16 from -1 to 1; a row of zeros stays zero.

    Each row, of any format below 2**40, is shifted and rounded to 17 bits of its largest magnitude. The sum of squares
    is exact; each value is rounded once more after one product.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    octave, _ = normalised(np.maximum(largest, 1))
    near = shifted(rows, octave - 16)
    inverse = inverse_root(np.maximum((near * near).sum(axis=1, keepdims=True), 1))
    return scaled(near, 0, inverse, Q8_16, narrow)
