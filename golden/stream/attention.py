"""Attention in integers: scores, softmax without a division a score, and the context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower, shifted
from .functions import INVERSE, Inverse, power_of_half, reciprocal
from .norms import Q11_16

Q6_12 = Format(6, 12)
"""Format of keys and values, which are stationary in the array: a DSP's narrow port."""
SUM = Format(48, 0)
"""Format of exact sums: of scores, and of weighted values."""
WEIGHT = Format(4, 20)
"""Format of weights as rows of the array have them, from 0 to 1."""
_SCALE_BITS = 18
CONTEXT_GUARD = 8
"""Bits below a value's last one that its weighted sum keeps before it is divided."""


@dataclass(frozen=True)
class Attention:
    """Softmax of scaled scores and the weighted sum of values, of one head.

    Parameters
    ----------
    width : int
        Features of a head.
    scale : float, optional
        Factor of the scores, by default ``1 / sqrt(width)``.
    queries, keys, values, contexts : Format
        Formats of what is given, and of the result.
    """

    width: int
    scale: float | None = None
    queries: Format = Q8_16
    keys: Format = Q6_12
    values: Format = Q6_12
    contexts: Format = Q8_16

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UserError(f"a head has at least one feature, not {self.width}")

    @cached_property
    def factor(self) -> tuple[int, int]:
        """Scale times log2(e), as the exponentials are powers of two: integer of 17 bits, and its fraction bits."""
        value = (self.width**-0.5 if self.scale is None else self.scale) * np.log2(np.e)
        fraction = int(_SCALE_BITS - 1 - np.frexp(value)[1])
        rounded = int(np.rint(np.ldexp(value, fraction)))
        # rounded up to the next octave, it is the same number with a fraction bit less
        return (rounded, fraction) if rounded < 1 << (_SCALE_BITS - 1) else (rounded >> 1, fraction - 1)

    def exponents(
        self, queries: Integers, keys: Integers, narrow: Narrower, seen: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Compute scores times log2(e), Q8.16, see `exponents`.

        Parameters
        ----------
        queries : array of int, (..., queries, width)
        keys : array of int, (..., keys, width)
        narrow : Narrower
        seen : array of bool, (..., queries, keys), optional
            What a query sees: the others' saturations are not counted, as they are not computed.
        """
        products = queries @ np.swapaxes(keys, -1, -2)
        if seen is not None:
            products = np.where(seen, products, 0)
        return exponents(products, self.queries.fraction + self.keys.fraction, self.factor, narrow)

    def context(
        self, exponents: Integers, values: Integers, narrow: Narrower, seen: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Compute the softmax's weighted sum of values.

        Parameters
        ----------
        exponents : array of int, (..., queries, keys)
            From `exponents`.
        values : array of int, (..., keys, width)
        narrow : Narrower
        seen : array of bool, (..., queries, keys), optional
            What a query sees: at least one key. The others take no part.

        Returns
        -------
        array of int64, (..., queries, width)
            The sum of weighted values is exact, see `contexts`.
        """
        terms, inverse = weights(exponents, seen)
        return contexts(terms @ values, inverse, self.values.fraction, narrow, self.contexts)


def exponents(products: Integers, fraction: int, factor: tuple[int, int], narrow: Narrower) -> Integers:
    """Compute scores times log2(e): exact products are narrowed to Q11.16, scaled, and narrowed to Q8.16.

    Parameters
    ----------
    products : array of int
        Of queries and keys.
    fraction : int
        Their fraction bits.
    factor : (int, int)
        `Attention.factor`.
    narrow : Narrower
    """
    return narrow(narrow(products, fraction, Q11_16) * factor[0], Q11_16.fraction + factor[1], Q8_16)


def weights(exponents: Integers, seen: NDArray[np.bool_] | None = None) -> tuple[Integers, Inverse]:
    """Compute a softmax that is not divided yet: powers of two of the distances from a row's largest exponent.

    Parameters
    ----------
    exponents : array of int, (..., keys)
        Q8.16.
    seen : array of bool, (..., keys), optional
        Exponents that take part, at least one in a row.

    Returns
    -------
    weights : array of int64, (..., keys)
        `POWER`.
    inverse : Inverse
        Reciprocals of their sums, one a row: (..., 1).
    """
    if seen is not None:
        exponents = np.where(seen, exponents, Q8_16.minimum)
    terms = power_of_half(exponents.max(axis=-1, keepdims=True) - exponents)
    if seen is not None:
        terms = np.where(seen, terms, 0)
    return terms, reciprocal(terms.sum(axis=-1, keepdims=True))


def contexts(sums: Integers, inverse: Inverse, fraction: int, narrow: Narrower, result: Format) -> Integers:
    """Divide weighted sums of values by the sums of their weights.

    Parameters
    ----------
    sums : array of int, (..., width)
        Exact.
    inverse : Inverse
        From `weights`.
    fraction : int
        Fraction bits of the values.
    narrow : Narrower
    result : Format

    Returns
    -------
    array of int64, the shape of `sums`
        A sum is narrowed to 8 bits below a value's last one of the octave that the weights' sum is in, multiplied by
        that sum's reciprocal, and rounded.
    """
    # at most twice the largest value, as the sum of the weights is less than twice its octave
    mean = shifted(sums, inverse.exponent - CONTEXT_GUARD)
    return narrow(mean * inverse.mantissa, fraction + CONTEXT_GUARD + INVERSE.fraction, result)


def causal(queries: int, keys: int) -> NDArray[np.bool_]:
    """Mask of the keys that each query of a sequence sees, without later tokens: the last query sees all of them."""
    seen: NDArray[np.bool_] = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    return seen


ROTATION = Format(2, 16)
"""Format of cosines and sines."""
HALVES = 8
"""A head's features whose pairs the hardware turns are a multiple of it: each half is whole words of 4 values."""
MOST_WIDTH = 256
"""Most features of a head that the hardware turns."""


def rotations(positions: Integers, width: int, base: float = 10_000.0) -> tuple[Integers, Integers]:
    """Cosines and sines of rotary positions, for each position and pair of a head's features, in `ROTATION`.

    Parameters
    ----------
    positions : array of int, (tokens,)
    width : int
        Features of a head, even.
    base : float
        Of the wavelengths.
    """
    if width % 2:
        raise UserError(f"rotary positions turn pairs of features: {width} is odd")
    angles = positions[:, None] * base ** (-np.arange(0, width, 2) / width)
    return ROTATION.from_float(np.cos(angles)), ROTATION.from_float(np.sin(angles))


def rotated(rows: Integers, turns: tuple[Integers, Integers], form: Format, narrow: Narrower) -> Integers:
    """Turn the pairs of features by their token's position: feature i of the first half goes with i of the second.

    Parameters
    ----------
    rows : array of int, (..., tokens, width)
    turns : pair of array of int
        From `rotations`.
    form : Format
        Of `rows` and of the result.
    narrow : Narrower

    Returns
    -------
    array of int64, the shape of `rows`
        Each rounded once.
    """
    cosine, sine = turns
    first, second = np.split(rows, 2, axis=-1)
    exact = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return narrow(exact, form.fraction + ROTATION.fraction, form)
