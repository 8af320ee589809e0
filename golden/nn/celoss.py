"""`celoss`: gradient of the cross entropy with respect to the logits, probability - (1 at the label).

Exact: probabilities are Q4.12, and 1 is 4096.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Field, Spec, Stream, Words, packets_of
from ..fixed import Q4_12, Format, Overflow, narrow
from ..rng.urng import BIT

LABEL = Format(8, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class CelossSpec(Spec):
    """Model of `celoss`, which has no parameters."""

    name: ClassVar[str] = "celoss"
    summary: ClassVar[str] = "gradient of the cross entropy: a sample's probabilities, less 1 at its label"

    @property
    def latency(self) -> int:
        """Cycles from input to output: one register."""
        return 1

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes probabilities, `label` one word per sample; `o` gives gradients."""
        return {
            "i": Stream(
                "in",
                (Field("probability", Q4_12), Field("last", BIT)),
                doc="``probability`` in Q4.12, 0 to 4096, and ``last`` on a sample's last one; a word a cycle, taken"
                " only while a label is on offer.",
            ),
            "label": Stream("in", (Field("label", LABEL),), doc="A sample's class; taken with the sample's last word."),
            "o": Stream(
                "out",
                (Field("gradient", Q4_12), Field("last", BIT)),
                doc="``gradient`` in Q4.12, and ``last``; one cycle later, in the same order.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Gradients of all samples; a sample whose label exceeds its length stays unchanged.

        Differences wrap below -7, which probabilities do not reach.
        """
        given, last = inputs["i"]["probability"][:, 0], inputs["i"]["last"]
        result = given.copy()
        for (start, end), label in zip(packets_of(last), inputs["label"]["label"][:, 0].tolist(), strict=False):
            if start + label < end:
                result[start + label] -= 1 << Q4_12.fraction
        result = narrow(result, Q4_12, Q4_12, overflow=Overflow.WRAP)
        return {"o": {"gradient": result[:words, None], "last": last[:words]}}
