"""Deltas: the sum of a zeroth-order job's updates, folded to the generator's period where the period is short.

Each update adds an integer multiple of a perturbation. PeZO's perturbations are shifts of one periodic sequence, and so
is their sum. With steps (s, c), each c times the perturbation at position s, number j of word w is::

    sum of c * base[(w + s) mod times, (j + w + s) mod n] = total[w mod times, (j + w) mod n]

Without rotation the column is j on both sides. A job changes only `total`, of the base's shape, whatever the network's
size: 255 x 31 integers with 8-bit generators on the fly. Sums are modulo 2**32, so their order has no effect.

With other sources a perturbation is drawn anew at each position: a table with a row for each word, without rotation. So
is the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Format, Integers, Overflow, narrow
from ..rng.perturbation import FoldableSource, PerturbationSource

DELTA = Format(4, 28)
"""Format of a delta."""
MOST_FRACTION_BITS = 10
"""Largest number of fraction bits of perturbation integers: coefficient 1 is then 2**-18, far below a useful step."""


class PerturbationTable:
    """Perturbations as integers, in a table of the generator's base, or of all words.

    Parameters
    ----------
    source : PerturbationSource
        Generator; its numbers are narrowed, half to even, to at most `MOST_FRACTION_BITS` fraction bits.
    words : int
        Words of a perturbation; unused for a `FoldableSource`.

    Attributes
    ----------
    fraction : int
        Fraction bits of the integers.
    base : array (times, n) of int64, or None
        The source's base in these integers, if it has one.
    shape : (int, int)
        Shape of a table: the base's, or (words, n).
    """

    def __init__(self, source: PerturbationSource, words: int = 0) -> None:
        self.source = source
        self.fraction = min(source.fraction_bits, MOST_FRACTION_BITS)
        self.base: Integers | None = None
        self.shape, self._rotates = (words, source.width), False
        if isinstance(source, FoldableSource):
            self.base, self._rotates = self.narrowed(source.base), source.rotates
            self.shape = len(source.base), source.width

    @property
    def format(self) -> Format:
        """Narrowest format."""
        largest = int(self.narrowed(np.array(self.source.largest)))
        return Format(largest.bit_length() + 1 - self.fraction, self.fraction)

    def at(self, position: int) -> Integers:
        """Table of the perturbation at a position, for `spread`."""
        times, n = self.shape
        if self.base is None:
            return self.narrowed(self.source.draw(position, times))
        turned: Integers = np.roll(self.base, -(position % times), axis=0)
        if self._rotates:
            turned = np.roll(turned, -(position % n), axis=1)
        return turned

    def spread(self, table: Integers, words: int) -> Integers:
        """Numbers of the first `words` words of a table, (words, n)."""
        return self.numbers(table, np.arange(words))

    def numbers(self, table: Integers, words: Integers) -> Integers:
        """Rows of a table for the words with these indices, (len(words), n)."""
        numbers: Integers = table[self._places(words)]
        return numbers

    def folded(self, numbers: Integers, table: Integers) -> Integers:
        """Table with these numbers, (words, n), and `table` elsewhere: the inverse of `spread`."""
        folded = table.copy()
        folded[self._places(np.arange(len(numbers)))] = numbers
        return folded

    def _places(self, words: Integers) -> tuple[Integers, Integers]:
        times, n = self.shape
        word, number = words[:, None], np.arange(n)
        return word % times, (number + word) % n if self._rotates else number

    def narrowed(self, numbers: NDArray[np.integer]) -> Integers:
        """The source's numbers as integers."""
        wide = Format(32 - self.fraction, self.fraction)
        return narrow(numbers.astype(np.int64), self.source.fraction_bits, wide)


class Deltas:
    """Sum of updates in `DELTA`, of the table's shape, from `total` or zeros.

    Raises `UserError` if `total` has another shape, or a number outside `DELTA`.
    """

    def __init__(self, perturbation: PerturbationTable, total: Integers | None = None) -> None:
        self.perturbation = perturbation
        shape = perturbation.shape
        self.total = np.zeros(shape, np.int64) if total is None else total.astype(np.int64)
        if self.total.shape != shape:
            raise UserError(f"deltas of {self.total.shape} are not of this generator, whose deltas are {shape}")
        if self.total.min() < DELTA.minimum or self.total.max() > DELTA.maximum:
            raise UserError(f"a delta is outside {DELTA}")

    def add(self, position: int, coefficient: int) -> None:
        """Add an integer multiple of the perturbation at a position, modulo 2**32."""
        moved = self.total + coefficient * self.perturbation.at(position)
        self.total = narrow(moved, DELTA, DELTA, overflow=Overflow.WRAP)

    def along(self, position: int, amount: int) -> Integers:
        """Deltas plus a multiple of the perturbation at a position, exact, with 28 fraction bits."""
        return self.total + amount * self.perturbation.at(position)
