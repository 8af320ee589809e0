"""`requantize`: exact sums of a linear layer plus biases, rounded once to a format of activations.

A sum of products has the fraction bits of the values and of the weights together. Bias and result have 16, or 12 where
the result is a key or a value of attention, less what the layer's tensors are shifted.
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
"""Formats of results by number, which is that of an instruction of the streaming core."""
FORM = Format(2, 0, signed=False)
FRACTION = Format(5, 0, signed=False)
MOST_DROPPED = WEIGHT_BITS - 1 + SHIFT.maximum + Q8_16.fraction - Q6_12.fraction
"""Most bits of a sum that are rounded off."""


@dataclass(frozen=True, kw_only=True)
class RequantizeSpec(LanewiseSpec):
    """Parameters and model of `requantize`, see `LanewiseSpec`."""

    name: ClassVar[str] = "requantize"
    summary: ClassVar[str] = "sums of 56 bits plus biases, rounded to Q8.16, Q11.16, Q6.12 or these shifted"

    @property
    def latency(self) -> int:
        """Cycles from input to output: alignment, sum, shifter with rounding 6, saturation."""
        return 9

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes sums, biases and how the sums become values, `o` gives values of up to 27 bits."""
        settings = (
            Field("fraction", FRACTION, doc="fraction bits of the weights, 0 to 17"),
            Field("input_shift", SHIFT, doc="fraction bits that the layer's inputs lack of 16"),
            Field("output_shift", SHIFT, doc="fraction bits that the result lacks of its format"),
        )
        given = (
            Field(
                "sum", SUM, self.lanes, doc="lane 0 in the lowest bits; `16 + i_fraction - i_input_shift` fraction bits"
            ),
            Field("bias", Q8_16, self.lanes, doc="Q8.16"),
            *settings,
            Field("form", FORM, doc="0 Q8.16, 1 Q11.16, 2 and 3 Q6.12: the numbers of an instruction"),
        )
        return described(
            self.ports(given, Q11_16),
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
        """Compute the values word for word; a number of a format that there is not is that of the last."""
        given = {name: column[:words] for name, column in inputs["i"].items()}
        form = np.minimum(given["form"], len(FORMATS) - 1)
        least, most, fraction = (
            np.array([getattr(one, name) for one in FORMATS])[form] for name in ("minimum", "maximum", "fraction")
        )
        exact = (given["sum"] << given["input_shift"]) + (given["bias"] << given["fraction"])
        rounded = shifted(exact, given["fraction"] + Q8_16.fraction - fraction + given["output_shift"])
        return self.saturated(given, rounded, least, most)
