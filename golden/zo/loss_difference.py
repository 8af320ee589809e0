"""`loss_difference`: difference of a sample's losses on both sides of a perturbation, by the trapezoid on the softmax.

The gradient of the cross entropy along the logits is p - [label]. Its mean over both sides, times the distance, is
``sum over classes of (p+ + p- - 2 [label]) (l+ - l-) / 2``. Nothing is rounded: the half is a fraction bit. The
difference of two logarithms from a table would be inaccurate for close sides. This difference changes exactly its sign
if the sides are exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, packets_of
from ..errors import UserError
from ..fixed import Q4_12, Q8_16, Format, Integers
from ..memories.plan import MemoryShape
from ..nn.celoss import LABEL
from ..nn.softmax import LARGEST_SAMPLE, SoftmaxSpec, SoftmaxTables
from ..rng.urng import BIT

DIFFERENCE_FRACTION = Q4_12.fraction + Q8_16.fraction + 1
"""Fraction bits of a loss difference; the last is that of its half."""
LARGEST_ROW = (1 << Q4_12.fraction) * 1001 // 1000 + LARGEST_SAMPLE // 2 + 1
"""Bound of the sum of a sample's probabilities: 1, 0.1 % for the tables, half a last place for each class."""
LARGEST_DIFFERENCE = (2 * LARGEST_ROW + (2 << Q4_12.fraction)) * (Q8_16.maximum - Q8_16.minimum)
"""Bound of a loss difference, of either sign."""
DIFFERENCE = Format(LARGEST_DIFFERENCE.bit_length() + 1 - DIFFERENCE_FRACTION, DIFFERENCE_FRACTION)
"""Format of a sample's loss difference, Q11.29."""


def loss_differences(
    plus: Integers, minus: Integers, labels: Integers, tables: SoftmaxTables
) -> tuple[Integers, Integers]:
    """Loss differences of samples, and probabilities of their labels.

    Parameters
    ----------
    plus, minus : array of int, (samples, classes)
        Logits of either side, Q8.16.
    labels : array of int, (samples,)
        A label outside the classes counts as 0 for every class.
    tables : SoftmaxTables
        Integer model of the softmax.

    Returns
    -------
    array of int64, (samples,)
        Plus side's loss minus the minus side's, in `DIFFERENCE`.
    array of int64, (2, samples)
        Probability of the label on the plus and on the minus side, Q4.12; 0 for a label outside the classes.
    """
    probabilities = np.stack([tables.probabilities(logits) for logits in (plus, minus)])
    rows = np.flatnonzero(labels < plus.shape[1])
    probability = np.zeros((2, len(labels)), np.int64)
    probability[:, rows] = probabilities[:, rows, labels[rows]]
    weight = probabilities.sum(axis=0)
    weight[rows, labels[rows]] -= 2 << Q4_12.fraction
    difference: Integers = (weight * (plus - minus)).sum(axis=1)
    return difference, probability


@dataclass(frozen=True, kw_only=True)
class LossDifferenceSpec(Spec):
    """Parameters and model of `loss_difference`.

    Parameters
    ----------
    classes : int
        Maximum number of logits of a side: 1 to 256.
    """

    name: ClassVar[str] = "loss_difference"
    summary: ClassVar[str] = "difference of two losses, from the logits of a sample on both sides of a perturbation"
    product: ClassVar[int] = 8
    """Cycles of a product of weight and logit difference."""
    pairs: ClassVar[int] = 2
    """Number of pairs in the memories."""

    classes: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.softmax  # checks the number of classes

    @cached_property
    def softmax(self) -> SoftmaxSpec:
        return SoftmaxSpec(classes=self.classes)

    def latency_of(self, length: int) -> int:
        """Cycles from a pair's last minus logit to its word, if no earlier pair is pending."""
        return self._first_product(length) + self._products(length)

    def period(self, length: int) -> int:
        """Cycles between pairs of `length` logits a side in a steady stream."""
        return max(2 * self.softmax.period(length), self._products(length))

    def cycles(self, lengths: list[int]) -> int:
        """Cycles from the first logit to the last word without stalls, for pairs of these lengths."""
        taken = done = 0
        free = [0] * self.pairs  # cycle from which each pair of memories may be overwritten
        for number, length in enumerate(lengths):
            start = max(taken, free[number % self.pairs])
            side = self.softmax.period(length)
            taken = start + 2 * side
            begin = max(start + side + length - 1 + self._first_product(length), done)
            done = begin + self._products(length)
            free[number % self.pairs] = done - self.product
        return done + 1

    def _first_product(self, length: int) -> int:
        """Cycles from the last minus logit to the load of the first product, two of them for memories."""
        softmax = self.softmax
        return softmax.period(length) + softmax.drain - 2 * length + 1 + 2

    def _products(self, length: int) -> int:
        """Cycles from the load of a pair's first product to its word; then the next pair's first product may load."""
        return self.product * length + 1

    def side_memory(self, name: str, width: int) -> MemoryShape:
        return MemoryShape(name, 2 << max((self.classes - 1).bit_length(), 1), width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        probability = Q4_12.fraction + 1
        widths = {"logit": (Q8_16.width, Q8_16.width), "probability": (probability, probability + 1)}
        sides = [
            self.side_memory(f"{name} of the {side} side", width)
            for name, both in widths.items()
            for side, width in zip(("plus", "minus"), both, strict=True)
        ]
        return (*sides, *self.softmax.memories)

    def streams(self) -> dict[str, Stream]:
        return {
            "i": Stream(
                "in",
                (Field("logit", Q8_16), Field("last", BIT)),
                doc="Logits of a sample's plus side, `last` with the final one, then as many of its minus side. "
                "Ready while the softmax takes a side; for a plus side only while at most one pair is complete "
                "and has products left to form.",
            ),
            "label": Stream(
                "in",
                (Field("label", LABEL),),
                doc="Class of a pair. Products wait for it; it is taken as the pair's last product begins.",
            ),
            "o": Stream(
                "out",
                (
                    Field("difference", DIFFERENCE, doc="loss of the plus side less that of the minus side"),
                    Field("plus", Q4_12, doc="the label's probability on either side, 0 to 4096"),
                    Field("minus", Q4_12, doc="the label's probability on either side, 0 to 4096"),
                ),
                doc="Difference of the losses, and the label's probability on the plus and on the minus side, 0 to "
                "4096; one word a pair. The next pair's products wait until it is taken.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Words of all complete pairs.

        Raises `UserError` if a side has more logits than `classes`, or the sides of a pair have different lengths.
        """
        logits, labels = inputs["i"]["logit"][:, 0], inputs["label"]["label"]
        sides = packets_of(inputs["i"]["last"])
        rows = []
        for plus, minus, label in zip(sides[::2], sides[1::2], labels, strict=False):
            lengths = [end - start for start, end in (plus, minus)]
            if max(lengths) > self.classes:
                raise UserError(f"a sample of {max(lengths)} logits; the longest here is {self.classes}")
            if lengths[0] != lengths[1]:
                raise UserError(f"a pair of {lengths[0]} and {lengths[1]} logits; both sides have as many")
            both = [logits[None, start:end] for start, end in (plus, minus)]
            difference, label_probability = loss_differences(both[0], both[1], label, self.softmax.tables)
            rows.append([difference[0], *label_probability[:, 0]])
        columns = np.array(rows[:words], np.int64).reshape(-1, 3).T[:, :, None]
        return {"o": dict(zip(("difference", "plus", "minus"), columns, strict=True))}

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return self.softmax.roms()
