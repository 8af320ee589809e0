"""Softmax from two tables, without divider: the maximum is subtracted, the sum normalised to 1 to 2.

Both tables fit one block RAM each; so does InstantFT (section 4.1, after Duarte et al., 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .fixed import Q4_12, Q8_16, Format, Integers, narrow

DISTANCE = Format(4, 7, signed=False)


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Parameters and model.

    Parameters
    ----------
    distance : Format
        In which the distance of a logit from the largest addresses the exponential's table.
    mantissa : int
        Bits behind the leading one of the sum that address the reciprocal's table.
    """

    distance: Format = DISTANCE
    mantissa: int = 10

    exponential_format = Format(1, 17, signed=False)
    reciprocal_format = Format(1, 16, signed=False)

    @cached_property
    def exponentials(self) -> Integers:
        """exp(-i / 2**7), U1.17; the last entry, where larger distances end, is 0."""
        distances = self.distance.to_float(np.arange(self.distance.maximum + 1))
        return self.exponential_format.from_float(np.where(distances < distances[-1], np.exp(-distances), 0.0))

    @cached_property
    def reciprocals(self) -> Integers:
        """1 / (1 + i / 2**10), U1.16."""
        entries = np.arange(1 << self.mantissa)
        return self.reciprocal_format.from_float(1 / (1 + np.ldexp(entries, -self.mantissa)))

    def probabilities(self, logits: Integers) -> Integers:
        """Softmax of logits.

        Parameters
        ----------
        logits : array of int, (n, classes)
            Q8.16.

        Returns
        -------
        array of int64, (n, classes)
            Q4.12. A row's sum is 1 to within 0.1 % and a rounding for each class.
        """
        distances = logits.max(axis=1, keepdims=True) - logits
        terms = self.exponentials[narrow(distances, Q8_16, self.distance)]
        total = terms.sum(axis=1, keepdims=True)
        # the largest logit's own term is 1.0, so the sum is at least 1.0
        one = self.exponential_format.fraction
        octave = np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1 - one
        top = int(octave.max(initial=0))
        behind = (total - (1 << (one + octave))) << (top - octave)
        inverse = self.reciprocals[narrow(behind, one + top, Format(0, self.mantissa, signed=False))]
        product = (terms * inverse) << (top - octave)
        return narrow(product, one + self.reciprocal_format.fraction + top, Q4_12)

    def gradient(self, logits: Integers, labels: Integers) -> Integers:
        """Gradient of each sample's cross entropy with respect to its logits, Q4.12: probability - (1 if the label)."""
        result = self.probabilities(logits)
        result[np.arange(len(labels)), labels] -= 1 << Q4_12.fraction
        return result
