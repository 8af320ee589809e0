"""`celoss`: gradient of the cross entropy with respect to the logits, probability - (1 if the label).

No rounding: a probability is Q4.12 and so is 1. What is subtracted is 4096 last places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Field, Spec, Stream, Words
from ..fixed import Q4_12, Format, Overflow, narrow
from ..packets import packets_of
from ..rng.urng import BIT

LABEL = Format(8, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class CelossSpec(Spec):
    """Model of `celoss`; it has no parameters."""

    name: ClassVar[str] = "celoss"
    summary: ClassVar[str] = "gradient of the cross entropy: a sample's probabilities, less 1 at its label"

    @property
    def latency(self) -> int:
        """One register."""
        return 1

    def streams(self) -> dict[str, Stream]:
        """`i` takes probabilities, `label` one word a sample; `o` gives gradients."""
        return {
            "i": Stream("in", (Field("probability", Q4_12), Field("last", BIT))),
            "label": Stream("in", (Field("label", LABEL),)),
            "o": Stream("out", (Field("gradient", Q4_12), Field("last", BIT))),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Sample by sample; one whose label is beyond its end passes unchanged.

        Below -7, where no probability is, the difference wraps: saturation would only cost.
        """
        given, last = inputs["i"]["probability"][:, 0], inputs["i"]["last"]
        result = given.copy()
        for (start, end), label in zip(packets_of(last), inputs["label"]["label"][:, 0].tolist(), strict=False):
            if start + label < end:
                result[start + label] -= 1 << Q4_12.fraction
        result = narrow(result, Q4_12, Q4_12, overflow=Overflow.WRAP)
        return {"o": {"gradient": result[:words, None], "last": last[:words]}}
