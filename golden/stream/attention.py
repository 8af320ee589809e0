"""Attention in integers: scores, softmax without a division per score, and contexts."""

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
"""Format of keys and values: they are stationary, in a DSP's 18-bit port."""
SUM = Format(48, 0)
"""Format of exact sums of scores and weighted values."""
WEIGHT = Format(4, 20)
"""Format of the weights as rows of the array, from 0 to 1."""
_SCALE_BITS = 18
CONTEXT_GUARD = 8
"""Guard bits of a weighted sum before its division."""


@dataclass(frozen=True)
class Attention:
    """Softmax of scaled scores and the weighted sum of values, of one head of `width` features.

    `scale` is the factor of the scores, by default ``1 / sqrt(width)``.
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
        """Scale times log2(e), because exponentials are powers of two: 17-bit integer, number of its fraction bits."""
        value = (self.width**-0.5 if self.scale is None else self.scale) * np.log2(np.e)
        fraction = int(_SCALE_BITS - 1 - np.frexp(value)[1])
        rounded = int(np.rint(np.ldexp(value, fraction)))
        # a value rounded up to the next octave loses one fraction bit
        return (rounded, fraction) if rounded < 1 << (_SCALE_BITS - 1) else (rounded >> 1, fraction - 1)

    def exponents(
        self, queries: Integers, keys: Integers, narrow: Narrower, seen: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Scores times log2(e), (..., queries, keys) in Q8.16; see `golden.stream.attention.exponents`.

        Queries and keys are (..., queries or keys, width). `seen` is a mask, (..., queries, keys). Masked scores count
        no saturations: the hardware does not compute them.
        """
        products = queries @ np.swapaxes(keys, -1, -2)
        if seen is not None:
            products = np.where(seen, products, 0)
        return exponents(products, self.queries.fraction + self.keys.fraction, self.factor, narrow)

    def context(
        self, exponents: Integers, values: Integers, narrow: Narrower, seen: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Contexts: softmax times values, (..., queries, width) in the format `contexts`.

        `exponents`, (..., queries, keys), are from the method of this name; `values` are (..., keys, width). The mask
        `seen`, (..., queries, keys), has at least one key a query.
        """
        terms, inverse = weights(exponents, seen)
        return contexts(terms @ values, inverse, self.values.fraction, narrow, self.contexts)


def exponents(products: Integers, fraction: int, factor: tuple[int, int], narrow: Narrower) -> Integers:
    """Scores times log2(e): exact products are narrowed to Q11.16, scaled, and narrowed to Q8.16.

    `fraction` is the fraction bits of the products, `factor` is `Attention.factor`.
    """
    return narrow(narrow(products, fraction, Q11_16) * factor[0], Q11_16.fraction + factor[1], Q8_16)


def weights(exponents: Integers, seen: NDArray[np.bool_] | None = None) -> tuple[Integers, Inverse]:
    """Softmax before the division: two to the power of each exponent's (negative) distance from the row's largest.

    Parameters
    ----------
    exponents : array of int, (..., keys)
        Q8.16.
    seen : array of bool, (..., keys), optional
        Mask with at least one exponent a row.

    Returns
    -------
    weights : array of int64, (..., keys)
        In `POWER`.
    inverse : Inverse, (..., 1)
        Reciprocals of the rows' sums.
    """
    if seen is not None:
        exponents = np.where(seen, exponents, Q8_16.minimum)
    terms = power_of_half(exponents.max(axis=-1, keepdims=True) - exponents)
    if seen is not None:
        terms = np.where(seen, terms, 0)
    return terms, reciprocal(terms.sum(axis=-1, keepdims=True))


def contexts(sums: Integers, inverse: Inverse, fraction: int, narrow: Narrower, result: Format) -> Integers:
    """Weighted sums of values, (..., width), divided by the sums of the weights, in the format `result`.

    An exact sum is narrowed to 8 guard bits below a value's last bit, relative to the octave of the weights' sum. The
    sum is then multiplied by the reciprocal from `weights` and rounded. `fraction` is the fraction bits of the values.
    """
    # at most twice the largest value: the sum of the weights is below twice its octave
    mean = shifted(sums, inverse.exponent - CONTEXT_GUARD)
    return narrow(mean * inverse.mantissa, fraction + CONTEXT_GUARD + INVERSE.fraction, result)


def causal(queries: int, keys: int) -> NDArray[np.bool_]:
    """Mask of the keys visible to each query, (queries, keys); the last query sees all keys."""
    seen: NDArray[np.bool_] = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    return seen


ROTATION = Format(2, 16)
"""Format of cosines and sines."""
HALVES = 8
"""The hardware rotates heads of a multiple of 8 features: each half is whole words of 4 values."""
MOST_WIDTH = 256
"""Largest head that the hardware rotates, in features."""


def rotations(positions: Integers, width: int, base: float = 10_000.0) -> tuple[Integers, Integers]:
    """Cosines and sines of rotary positions, each (positions, width / 2) in the format `ROTATION`.

    `width` is the features of a head, `base` the base of the wavelengths. Raises `UserError` if `width` is odd.
    """
    if width % 2:
        raise UserError(f"rotary positions turn pairs of features: {width} is odd")
    angles = positions[:, None] * base ** (-np.arange(0, width, 2) / width)
    return ROTATION.from_float(np.cos(angles)), ROTATION.from_float(np.sin(angles))


def rotated(rows: Integers, turns: tuple[Integers, Integers], form: Format, narrow: Narrower) -> Integers:
    """Rows, (..., tokens, width) in `form`, with each pair of features turned by its token's angle, rounded once.

    Feature i of the first half pairs with feature i of the second half. `turns` is from `rotations`.
    """
    cosine, sine = turns
    first, second = np.split(rows, 2, axis=-1)
    exact = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return narrow(exact, form.fraction + ROTATION.fraction, form)
