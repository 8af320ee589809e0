"""`context_scale`: weighted sums of values times the reciprocals of `attention_softmax`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words, described, packets_of, tag_fields
from ...errors import check_power, check_range
from ...fixed import Q8_16, Format, Integers, Narrower
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..attention import CONTEXT_GUARD, Q6_12, SUM, contexts
from ..forward import SHIFT
from ..functions import INVERSE, POWER, Inverse
from .attention_softmax import EXPONENT


@dataclass(frozen=True, kw_only=True)
class ContextScaleSpec(Spec):
    """Parameters and model of `context_scale`.

    Parameters
    ----------
    lanes : int
        Sums a cycle, 1 to 64.
    queries : int
        Maximum number of queries of a block: a power of two from 2 to 1,024.
    keys : int
        Maximum number of keys of a block: a power of two from 2 to 1,024.
    tag : int
        Bits that pass through unchanged, 0 to 32.
    """

    name: ClassVar[str] = "context_scale"
    summary: ClassVar[str] = (
        "contexts of attention: weighted sums of values times the reciprocals of their weights' sums"
    )

    lanes: int = 4
    queries: int = 64
    keys: int = 256
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("lanes", self.lanes, 1, 64)
        for name in ("queries", "keys"):
            value = getattr(self, name)
            check_power(name, value, 2, 1024)
        tag_fields(self.tag)

    @property
    def exponents(self) -> range:
        """Range of the reciprocals' exponents: the largest weight of each query is 1."""
        return range(POWER.fraction, POWER.fraction + self.keys.bit_length())

    @property
    def halvings(self) -> range:
        """Right shifts of the sums."""
        return range(self.exponents[0] - CONTEXT_GUARD, self.exponents[-1] - CONTEXT_GUARD + 1)

    @property
    def latency(self) -> int:
        """Cycles from a sum to its context: two bits of the shift amount a cycle, rounding 3, product 2, shift 2."""
        return -(-(len(self.halvings) - 1).bit_length() // 2) + 3 + 2 + 2 + 3

    def cycles(self, queries: list[int], words: list[int]) -> int:
        """Cycles from the first reciprocal to the last context, without back-pressure; counts are per block.

        A block's reciprocals arrive during the sums of the block before: each cycle one reciprocal and one word of
        sums.
        """
        filled = end = before = free = 0
        for count, length in zip(queries, words, strict=True):
            filled = max(filled, free) + count
            free, before = before, max(filled, end) + length
            end = before
        return end + self.latency

    def streams(self) -> dict[str, Stream]:
        tag = tag_fields(self.tag)
        inverse = (
            Field("mantissa", INVERSE, doc="`mantissa * 2^-(17 + exponent)`; the exponent is 20 or more"),
            Field("exponent", EXPONENT, doc="`mantissa * 2^-(17 + exponent)`; the exponent is 20 or more"),
            Field("last", BIT),
        )
        sums = (
            Field("sum", SUM, self.lanes, doc="lane 0 in the lowest bits"),
            Field(
                "query",
                Format.up_to(self.queries - 1),
                doc="number of the query in the block",
            ),
            Field("last", BIT),
            Field("value_shift", SHIFT, doc="fraction bits that the values lack of Q6.12"),
            Field("output_shift", SHIFT, doc="fraction bits that the contexts lack of Q8.16"),
        )
        return described(
            {
                "inverse": Stream("in", inverse, doc="Reciprocals of a block's queries in their order."),
                "i": Stream(
                    "in",
                    (*sums, *tag),
                    doc="Exact sums, at most twice the largest value times their query's sum of weights; `tag` only "
                    "where it has bits.",
                ),
                "o": Stream(
                    "out",
                    (
                        Field(
                            "value", Q8_16, self.lanes, doc="rounded half to even, `16 - i_output_shift` fraction bits"
                        ),
                        Field("clipped", BIT, self.lanes, doc="the value was saturated"),
                        *tag,
                    ),
                    doc="Contexts with ``16 - output_shift`` fraction bits, rounded half to even; where `clipped`, "
                    "saturated.",
                ),
            },
            {
                "inverse.last": "the block's last one",
                "i.last": "the block's last word",
            },
        )

    @property
    def inverse_memory(self) -> MemoryShape:
        """Reciprocals of two blocks of queries: mantissa and shift."""
        width = INVERSE.width + (len(self.halvings) - 1).bit_length()
        return MemoryShape("reciprocals", 2 * self.queries, width, lut_rows=2 * self.queries)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (self.inverse_memory,)

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        table, sums = inputs["inverse"], inputs["i"]
        mantissa, exponent = np.zeros((2, len(sums["last"]), 1), np.int64)
        for (start, end), (first, _) in zip(packets_of(sums["last"]), packets_of(table["last"]), strict=True):
            addresses = first + sums["query"][start:end, 0]
            mantissa[start:end], exponent[start:end] = table["mantissa"][addresses], table["exponent"][addresses]
        value, clipped = np.zeros_like(sums["sum"]), np.zeros_like(sums["sum"])
        shifts = np.concatenate([sums["value_shift"], sums["output_shift"]], axis=1)
        for pair in np.unique(shifts, axis=0):
            same_shifts = (shifts == pair).all(axis=1)
            value[same_shifts], clipped[same_shifts] = _contexts(
                sums["sum"][same_shifts], Inverse(mantissa[same_shifts], exponent[same_shifts]), *pair.tolist()
            )
        output = {"value": value, "clipped": clipped} | ({"tag": sums["tag"]} if self.tag else {})
        return {"o": {name: column[:words] for name, column in output.items()}}


def _contexts(sums: Integers, inverse: Inverse, value_shift: int, output_shift: int) -> tuple[Integers, Integers]:
    """Contexts, and flags of the values clipped to the result's format."""
    fraction = Q6_12.fraction - value_shift
    result = Format(Q8_16.integer + output_shift, Q8_16.fraction - output_shift)
    unbounded = Format(40, result.fraction)
    value = contexts(sums, inverse, fraction, Narrower(), result)
    return value, (value != contexts(sums, inverse, fraction, Narrower(), unbounded)).astype(np.int64)
