"""Layer norm, RMS norm and L2 norm in integers: exact sums of x and x^2, one inverse square root a row.

The sums are made while a row is written, so that a norm reads it once. Nothing is rounded before the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower, shifted
from ..nn.arithmetic.forward import average
from .functions import MANTISSA, inverse_root, normalised, scaled

Q11_16 = Format(11, 16)
"""Format of what residuals are added to, and of a norm's inputs: the wide port of a DSP."""
NORMALISED = Format(7, 17)
"""Format of a row's values divided by their deviation: at most the root of the hidden size."""
LARGEST_HIDDEN = 4096
"""Features whose root, the largest value of a row divided by its deviation, `NORMALISED` holds."""
_FEATURES_OF_62_BITS = 1024
"""Features with which a sum of squares of Q11.16 is at most 2**62."""
_COUNT_BITS = 24
"""Bits of the constant 1 / features."""


@dataclass(frozen=True)
class Norm:
    """Layer norm or RMS norm of rows of features.

    Parameters
    ----------
    features : int
        From 1 to `LARGEST_HIDDEN`.
    eps : float
        What is added to the variance.
    centred : bool
        Layer norm where true; RMS norm leaves the mean where it is.
    form : Format
        Of the inputs: at most 27 bits.

    Raises
    ------
    UserError
        If a size is out of range, or eps is negative.
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
        """Sum of squares that eps is, in units of their squares; at least 1, so that a row of zeros has an inverse."""
        return max(1, round(self.features * self.eps * 2.0 ** (2 * self.form.fraction)))

    @cached_property
    def share(self) -> tuple[int, int]:
        """The constant 1 / features: integer of 24 bits, and its fraction bits."""
        fraction = _COUNT_BITS - 1 + (self.features - 1).bit_length()
        return round((1 << fraction) / self.features), fraction

    @property
    def constants(self) -> NormConstants:
        """Fields of an instruction."""
        return NormConstants(self.features, self.centred, *self.share, self.least)

    def normalised(self, rows: Integers, narrow: Narrower) -> Integers:
        """Divide rows by their deviation, as `NormConstants.normalised`: rows are in `form`."""
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
        """Compute the norm with its factors and biases, as `NormConstants.run`: rows are in `form`."""
        return self.constants.run(rows, gamma, beta, gain, narrow, result)


@dataclass(frozen=True)
class NormConstants:
    """A norm as its hardware has it, in integers.

    The fraction bits of its inputs are none of them: they cancel, as a row is divided by its own deviation.

    Parameters
    ----------
    features : int
    centred : bool
    share, share_fraction : int
        The constant 1 / features, of 24 bits, and its fraction bits.
    least : int
        What is added to the sum of squares: at least 1, of at most 48 bits.
    """

    features: int
    centred: bool
    share: int
    share_fraction: int
    least: int

    def normalised(self, rows: Integers, narrow: Narrower) -> Integers:
        """Divide rows by their deviation, the mean subtracted where `centred`.

        Parameters
        ----------
        rows : array of int, (rows, features)
            Of at most 27 bits.
        narrow : Narrower
            Counts what saturates.

        Returns
        -------
        array of int64, (rows, features)
            `NORMALISED`.
        """
        sums = rows.sum(axis=1, keepdims=True)
        mean = average(sums, self.features) if self.centred else np.zeros_like(sums)
        octave, mantissa = self._deviation(rows, sums, mean)
        quotient = ((1 << MANTISSA) + mantissa) * self.share
        inverse = inverse_root(quotient, self.share_fraction + MANTISSA - octave)
        return scaled(rows - mean, 0, inverse, NORMALISED, narrow)

    def _deviation(self, rows: Integers, sums: Integers, mean: Integers) -> tuple[Integers, Integers]:
        """Octave and mantissa of the sum of squares about the mean plus `least`, which is exact: at most 65 bits."""
        squares = rows * rows
        if self.features <= _FEATURES_OF_62_BITS:
            # its terms may be beyond 63 bits, what they leave is not
            about = squares.sum(axis=1, keepdims=True) - 2 * mean * sums + self.features * mean * mean
            return normalised(about + self.least)
        # integers without bounds: an accumulator in two halves
        high, low = ((half.sum(axis=1, keepdims=True)).astype(object) for half in (squares >> 32, squares & 0xFFFFFFFF))
        mean, sums = mean.astype(object), sums.astype(object)
        total = (high << 32) + low - 2 * mean * sums + self.features * mean * mean + self.least
        # a mantissa has none of the bits that are dropped
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
        """Compute the norm with its factors and biases.

        Parameters
        ----------
        rows : array of int, (rows, features)
            Of at most 27 bits.
        gamma, beta : array of int, (features,)
            Factors in `gain`, biases in Q8.16; None for none.
        gain : Format
            Of 18 bits, a DSP's narrow port.
        narrow : Narrower
        result : Format

        Returns
        -------
        array of int64, (rows, features)
            In `result`, rounded once behind the exact ``n * gamma + beta``.
        """
        fraction = NORMALISED.fraction + gain.fraction
        exact = self.normalised(rows, narrow) * gamma
        if beta is not None:
            exact += beta << (fraction - Q8_16.fraction)
        return narrow(exact, fraction, result)


def unit_rows(rows: Integers, narrow: Narrower) -> Integers:
    """Divide rows by their L2 norm; a row of zeros stays.

    Each row is shifted so that its largest has 17 bits, and rounded. Its squares are summed exactly, and one product a
    value is rounded.

    Parameters
    ----------
    rows : array of int, (rows, features)
        Of any one format, below 2**40.

    Returns
    -------
    array of int64, (rows, features)
        Q8.16, from -1 to 1.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    octave, _ = normalised(np.maximum(largest, 1))
    near = shifted(rows, octave - 16)
    inverse = inverse_root(np.maximum((near * near).sum(axis=1, keepdims=True), 1))
    return scaled(near, 0, inverse, Q8_16, narrow)
