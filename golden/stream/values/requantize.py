"""`requantize`: exact sums of a linear layer plus biases, rounded once to a format of activations.

A sum has as many fraction bits as a value and a weight together. Bias and result have 16 fraction bits (keys and values
of attention 12), minus the shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...fixed import Q8_16, Format, shifted
from ..array.partial_sums import TOTAL
from ..attention import Q6_12
from ..forward import SHIFT, WEIGHT_BITS
from ..norms import Q11_16
from .lanewise import LanewiseSpec

SUM = Format(TOTAL.width, 0)
"""Format of an exact sum, in units of its last place."""
FORMATS = (Q8_16, Q11_16, Q6_12)
"""Formats of results by number, as in an instruction of the streaming core."""
FORM = Format(2, 0, signed=False)
FRACTION = Format(5, 0, signed=False)
MOST_DROPPED = WEIGHT_BITS - 1 + SHIFT.maximum + Q8_16.fraction - Q6_12.fraction
"""Largest number of bits to round off a sum."""


@dataclass(frozen=True, kw_only=True)
class RequantizeSpec(LanewiseSpec):
    name: ClassVar[str] = "requantize"
    summary: ClassVar[str] = "sums of 56 bits plus biases, rounded to Q8.16, Q11.16, Q6.12 or these shifted"

    @property
    def latency(self) -> int:
        """Cycles from input to output: alignment, sum, shifter with rounding 6, saturation."""
        return 9

    def streams(self) -> dict[str, Stream]:
        settings = (
            Field("fraction", FRACTION, doc="fraction bits of the weights, 0 to 17"),
            Field("input_shift", SHIFT, doc="fraction bits that the layer's inputs lack of 16"),
            Field("output_shift", SHIFT, doc="fraction bits that the result lacks of its format"),
        )
        inputs = (
            Field(
                "sum", SUM, self.lanes, doc="lane 0 in the lowest bits; `16 + i_fraction - i_input_shift` fraction bits"
            ),
            Field("bias", Q8_16, self.lanes, doc="Q8.16"),
            *settings,
            Field("form", FORM, doc="0 Q8.16, 1 Q11.16, 2 and 3 Q6.12: the numbers of an instruction"),
        )
        return described(
            self.ports(inputs, Q11_16),
            {
                "o.value": "of 24, 27 or 18 bits, extended by the sign",
                "o.clipped": "the value was saturated",
            },
            i="A sum has ``16 + fraction - input_shift`` fraction bits; `form` is the number in `FORMATS`; "
            "`tag` only where it has bits.",
            o="In the format `form`, shifted to the right by `output_shift`, rounded half to even; where "
            "`clipped`, saturated.",
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Result of each word; an unknown format number selects the last format."""
        fields = {name: column[:words] for name, column in inputs["i"].items()}
        form = np.minimum(fields["form"], len(FORMATS) - 1)
        least, most, fraction = (
            np.array([getattr(target, name) for target in FORMATS])[form] for name in ("minimum", "maximum", "fraction")
        )
        exact = (fields["sum"] << fields["input_shift"]) + (fields["bias"] << fields["fraction"])
        rounded = shifted(exact, fields["fraction"] + Q8_16.fraction - fraction + fields["output_shift"])
        return self.saturated(fields, rounded, least, most)
