"""`elementwise`: sum, product or square of values, rounded once; for residuals, positions, gates and squared ReLU.

Values have 16 fraction bits minus their tensor's shift. Terms of a sum are aligned; shifts of factors add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...fixed import Q8_16, Format, Overflow, narrow, shifted
from ..forward import SHIFT
from ..norms import Q11_16
from .lanewise import LanewiseSpec

KINDS = ("none", "add", "multiply", "square")
"""Operation on both values, by number; a square uses the first value only."""
KIND = Format(2, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class ElementwiseSpec(LanewiseSpec):
    name: ClassVar[str] = "elementwise"
    summary: ClassVar[str] = "sums, products or squares of values in Q8.16, Q11.16 or shifted, rounded once"

    @property
    def latency(self) -> int:
        """Cycles from input to output: operands, product, choice, shifter with rounding 6, saturation."""
        return 10

    def streams(self) -> dict[str, Stream]:
        values = (
            Field(
                "first",
                Q11_16,
                self.lanes,
                doc="lane 0 in the lowest bits; 16 fraction bits less their shift; factors are the lower 24 bits",
            ),
            Field(
                "second",
                Q11_16,
                self.lanes,
                doc="lane 0 in the lowest bits; 16 fraction bits less their shift; factors are the lower 24 bits",
            ),
        )
        shifts = (Field(f"{name}_shift", SHIFT) for name in ("first", "second", "output"))
        return described(
            self.ports(
                (
                    *values,
                    Field("kind", KIND, doc="0 the first value as it is, 1 sum, 2 product, 3 square of the first"),
                    *shifts,
                ),
                Q11_16,
            ),
            {
                "i.first_shift": "fraction bits that a value lacks of 16",
                "i.second_shift": "fraction bits that a value lacks of 16",
                "i.output_shift": "fraction bits that the result lacks of 16",
                "o.value": "a sum in Q11.16, a product in Q8.16, shifted; extended by the sign",
                "o.clipped": "the value was saturated",
            },
            i="Values of 16 fraction bits less their shift; the number in `KINDS`; `tag` only where it has bits.",
            o="Q11.16 of a sum, Q8.16 of a product, shifted to the right by `output_shift`, rounded half to "
            "even; where `clipped`, saturated.",
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Result of each word; factors are the lower 24 bits of a value."""
        fields = {name: column[:words] for name, column in inputs["i"].items()}
        kind, drop, first, second = (fields[name] for name in ("kind", "output_shift", "first", "second"))
        factors = [narrow(operand, Q8_16, Q8_16, overflow=Overflow.WRAP) for operand in (first, second)]
        square = kind == KINDS.index("square")
        other, shift = (
            np.where(square, of_square, of_product)
            for of_square, of_product in ((factors[0], factors[1]), (fields["first_shift"], fields["second_shift"]))
        )
        total = (first << fields["first_shift"]) + (second << fields["second_shift"])
        product = (factors[0] * other) << (fields["first_shift"] + shift)
        rounded = np.select(
            [kind == KINDS.index("none"), kind == KINDS.index("add")],
            [first, shifted(total, drop)],
            shifted(product, Q8_16.fraction + drop),
        )
        most = np.where(kind > KINDS.index("add"), Q8_16.maximum, Q11_16.maximum)
        return self.saturated(fields, rounded, ~most, most)
