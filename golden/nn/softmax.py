"""Softmax from two tables without a divider: the maximum is subtracted, and the sum normalised to the range 1 to 2.

Each table fits one block RAM, as in InstantFT (section 4.1, after Duarte et al., 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, last_flags, packets_of
from ..errors import UserError, check_range
from ..fixed import Q4_12, Q8_16, Format, Integers, narrow
from ..memories.plan import MemoryShape
from ..rng.urng import BIT

DISTANCE = Format(4, 7, signed=False)


@dataclass(frozen=True, kw_only=True)
class SoftmaxTables:
    """Parameters and integer model of the softmax.

    Parameters
    ----------
    distance : Format
        Difference to the largest logit, the address of the table of exponentials.
    mantissa : int
        Bits after the sum's leading one, the address of the table of reciprocals.
    """

    distance: Format = DISTANCE
    mantissa: int = 10

    exponential_format = Format(1, 17, signed=False)
    reciprocal_format = Format(1, 16, signed=False)

    @cached_property
    def exponentials(self) -> Integers:
        """Table of exp(-i / 2**7) in U1.17; the last entry, also for larger distances, is 0."""
        distances = self.distance.to_float(np.arange(self.distance.maximum + 1))
        return self.exponential_format.from_float(np.where(distances < distances[-1], np.exp(-distances), 0.0))

    @cached_property
    def reciprocals(self) -> Integers:
        """Table of 1 / (1 + i / 2**10) in U1.16."""
        entries = np.arange(1 << self.mantissa)
        return self.reciprocal_format.from_float(1 / (1 + np.ldexp(entries, -self.mantissa)))

    def products(self, logits: Integers) -> tuple[Integers, int]:
        """Unrounded softmax of logits in Q8.16, (n, classes).

        Returns
        -------
        products : array of int64, (n, classes)
        fraction : int
            Fraction bits of the products.
        """
        distances = logits.max(axis=1, keepdims=True) - logits
        terms = self.exponentials[narrow(distances, Q8_16, self.distance)]
        total = terms.sum(axis=1, keepdims=True)
        # the largest logit's term is 1.0, so the sum is at least 1.0
        one = self.exponential_format.fraction
        octave = np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1 - one
        top = int(octave.max(initial=0))
        fraction = (total - (1 << (one + octave))) << (top - octave)
        inverse = self.reciprocals[narrow(fraction, one + top, Format(0, self.mantissa, signed=False))]
        return (terms * inverse) << (top - octave), one + self.reciprocal_format.fraction + top

    def probabilities(self, logits: Integers) -> Integers:
        """Softmax in Q4.12 of logits in Q8.16, (n, classes); a row's sum is 1 up to 0.1 % and a rounding a class."""
        return narrow(*self.products(logits), Q4_12)

    def gradient(self, logits: Integers, labels: Integers) -> Integers:
        """Gradient of the cross entropy with respect to the logits, Q4.12: probability - (1 at the label)."""
        result = self.probabilities(logits)
        result[np.arange(len(labels)), labels] -= 1 << Q4_12.fraction
        return result


LARGEST_SAMPLE = 256
"""Most classes: a label has eight bits."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxSpec(Spec):
    """Parameters and model of the block `softmax`, which computes `SoftmaxTables().probabilities` sample by sample.

    Parameters
    ----------
    classes : int
        Number of logits of the longest sample. Refused: outside 1 to 256: a label has eight bits, and the shifted
        exponential fits a DSP's 27-bit operand.
    """

    name: ClassVar[str] = "softmax"
    summary: ClassVar[str] = "softmax of a sample's logits, one per cycle, from two tables in block RAM"

    classes: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("classes", self.classes, 1, LARGEST_SAMPLE)

    @cached_property
    def tables(self) -> SoftmaxTables:
        """Integer model of the softmax."""
        return SoftmaxTables()

    @property
    def octaves(self) -> int:
        """Largest exponent of the sum, which is between 1 and `classes`."""
        return self.classes.bit_length() - 1

    def period(self, length: int) -> int:
        """Cycles between first logits of adjacent samples."""
        return 3 * length + 5 + self.octaves

    @property
    def drain(self) -> int:
        """Cycles from the earliest start of the next sample (inclusive) to the last probability of a sample."""
        return 5

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes logits, `o` gives probabilities; `last` ends a sample on both."""
        return {
            "i": Stream(
                "in",
                (Field("logit", Q8_16), Field("last", BIT)),
                doc="``logit`` in Q8.16, and ``last`` on a sample's last one. Ready until the last one, and again "
                "once the sample's probabilities have been read.",
            ),
            "o": Stream(
                "out",
                (Field("probability", Q4_12), Field("last", BIT)),
                doc="``probability`` in Q4.12, 0 to 4096, and ``last``; in the order of the logits.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Probabilities of all complete samples."""
        logits = inputs["i"]["logit"][:, 0]
        found, flags = [np.empty(0, np.int64)], [np.empty((0, 1), np.int64)]
        for start, end in packets_of(inputs["i"]["last"]):
            if end - start > self.classes:
                raise UserError(f"a sample of {end - start} logits; the longest here is {self.classes}")
            found.append(self.tables.probabilities(logits[None, start:end])[0])
            flags.append(last_flags([end - start]))
        result = {"probability": np.concatenate(found)[:, None], "last": np.concatenate(flags)}
        return {"o": {name: column[:words] for name, column in result.items()}}

    @property
    def logit_memory(self) -> MemoryShape:
        """Logits of a sample."""
        return MemoryShape("softmax logits", max(self.classes, 2), Q8_16.width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Logits of a sample, and the tables."""
        tables = (
            MemoryShape(f"softmax {name}", len(contents), width, constant=True)
            for name, (contents, width) in self.roms().items()
        )
        return self.logit_memory, *tables

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of both tables."""
        tables = self.tables
        return {
            "exponentials": (tables.exponentials.tolist(), tables.exponential_format.width),
            "reciprocals": (tables.reciprocals.tolist(), tables.reciprocal_format.width),
        }
