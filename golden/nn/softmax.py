"""Softmax from two tables, without divider: the maximum is subtracted, the sum normalised to 1 to 2.

Both tables fit one block RAM each; so does InstantFT (section 4.1, after Duarte et al., 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Q4_12, Q8_16, Format, Integers, narrow
from ..packets import last_flags, packets_of
from ..rng.urng import BIT

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


LARGEST_SAMPLE = 256
"""Classes at most: a label has eight bits."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxSpec(Spec):
    """Parameters and model of the block `softmax`, which computes `Softmax().probabilities` sample by sample.

    Parameters
    ----------
    classes : int
        Logits of the longest sample.
    """

    name: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "softmax of a sample's logits, one a cycle, from two tables in block RAM"

    classes: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.classes <= LARGEST_SAMPLE:
            raise UserError(f"classes = {self.classes} is not in 1 to {LARGEST_SAMPLE}")

    @cached_property
    def tables(self) -> Softmax:
        """The model without the block."""
        return Softmax()

    @property
    def octaves(self) -> int:
        """The largest sum's: the sum lies between 1 and `classes`."""
        return self.classes.bit_length() - 1

    def period(self, length: int) -> int:
        """Cycles from a sample's first logit to the next sample's."""
        return 3 * length + 5 + self.octaves

    @property
    def drain(self) -> int:
        """Cycles from when the next sample may begin to the sample's last probability."""
        return 5

    def streams(self) -> dict[str, Stream]:
        """`i` takes logits, `o` gives probabilities; `last` ends a sample on both."""
        return {
            "i": Stream("in", (Field("logit", Q8_16), Field("last", BIT))),
            "o": Stream("out", (Field("probability", Q4_12), Field("last", BIT))),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Sample by sample; one that has no last logit yet gives nothing."""
        logits = inputs["i"]["logit"][:, 0]
        found, flags = [np.empty(0, np.int64)], [np.empty((0, 1), np.int64)]
        for start, end in packets_of(inputs["i"]["last"]):
            if end - start > self.classes:
                raise UserError(f"a sample of {end - start} logits; this softmax takes {self.classes}")
            found.append(self.tables.probabilities(logits[None, start:end])[0])
            flags.append(last_flags([end - start]))
        result = {"probability": np.concatenate(found)[:, None], "last": np.concatenate(flags)}
        return {"o": {name: column[:words] for name, column in result.items()}}

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Both tables."""
        tables = self.tables
        return {
            "exponentials": (tables.exponentials.tolist(), tables.exponential_format.width),
            "reciprocals": (tables.reciprocals.tolist(), tables.reciprocal_format.width),
        }
