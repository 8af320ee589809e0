"""Deltas: the sum of a zeroth-order job's updates, folded to the period of the generator.

Every update adds an integer multiple of a perturbation, and perturbations are shifts of one periodic sequence. So is
their sum: number j of word w of c times the perturbation at position s, added for every step (s, c), is::

    sum of c * base[(w + s) mod times, (j + w + s) mod n] = total[w mod times, (j + w) mod n]

(without ``w + s`` and ``w`` in the column where the source does not rotate). `total`, of the base's shape, is all that
a job changes, whatever the size of the network: 255 x 31 integers with 8-bit generators on the fly. Sums are modulo
2**32, so that their order has no effect.
"""

from __future__ import annotations

import numpy as np

from ..errors import UserError
from ..fixed import Format, Integers, Overflow, narrow
from ..rng.perturbation import PerturbationSource

DELTA = Format(4, 28)
"""Format of a delta."""
MOST_FRACTION_BITS = 10
"""Most fraction bits of a perturbation's integers: a coefficient of 1 then is 2**-18, far below a useful step."""


class PerturbationTable:
    """Perturbations as integers, in a table of the generator's base.

    Parameters
    ----------
    source : PerturbationSource
        The generator; its numbers are narrowed half to even to at most `MOST_FRACTION_BITS` fraction bits.

    Attributes
    ----------
    fraction : int
        Fraction bits of the integers.
    base : array (times, n) of int64
    """

    def __init__(self, source: PerturbationSource) -> None:
        self.source = source
        self.fraction = min(source.fraction_bits, MOST_FRACTION_BITS)
        wide = Format(32 - self.fraction, self.fraction)
        self.base = narrow(source.base.astype(np.int64), source.fraction_bits, wide)

    @property
    def format(self) -> Format:
        """Narrowest format of the integers."""
        largest = int(np.abs(self.base).max())
        return Format(largest.bit_length() + 1 - self.fraction, self.fraction)

    def at(self, position: int) -> Integers:
        """Table of the perturbation at a position, (times, n), to be read as `spread` does."""
        times, n = self.base.shape
        turned: Integers = np.roll(self.base, -(position % times), axis=0)
        if self.source.rotates:
            turned = np.roll(turned, -(position % n), axis=1)
        return turned

    def spread(self, table: Integers, words: int) -> Integers:
        """Numbers of so many words of a table: (words, n)."""
        times, n = self.base.shape
        word, number = np.arange(words)[:, None], np.arange(n)
        numbers: Integers = table[word % times, (number + word) % n if self.source.rotates else number]
        return numbers

    def folded(self, numbers: Integers, table: Integers) -> Integers:
        """Table whose numbers are these, (words, n): the inverse of `spread`; what is not in them is as in `table`."""
        times, n = self.base.shape
        word, number = np.arange(len(numbers))[:, None], np.arange(n)
        found = table.copy()
        found[word % times, (number + word) % n if self.source.rotates else number] = numbers
        return found


class Deltas:
    """Sum of updates.

    Parameters
    ----------
    perturbation : PerturbationTable
    total : array (times, n) of int, optional
        Sum of updates so far, `DELTA`; by default there are none.

    Raises
    ------
    UserError
        If `total` does not have the shape of the generator's base, or a number of it is outside `DELTA`.
    """

    def __init__(self, perturbation: PerturbationTable, total: Integers | None = None) -> None:
        self.perturbation = perturbation
        shape = perturbation.base.shape
        self.total = np.zeros(shape, np.int64) if total is None else total.astype(np.int64)
        if self.total.shape != shape:
            raise UserError(f"deltas of {self.total.shape} are not of this generator, whose deltas are {shape}")
        if self.total.min() < DELTA.minimum or self.total.max() > DELTA.maximum:
            raise UserError(f"a delta is outside {DELTA}")

    def add(self, position: int, coefficient: int) -> None:
        """Add an integer multiple of the perturbation at a position."""
        moved = self.total + coefficient * self.perturbation.at(position)
        self.total = narrow(moved, DELTA, DELTA, overflow=Overflow.WRAP)

    def along(self, position: int, amount: int) -> Integers:
        """Deltas plus a multiple of the perturbation at a position, exact: (times, n) with 28 fraction bits."""
        return self.total + amount * self.perturbation.at(position)
