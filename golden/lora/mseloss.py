"""`mseloss`: gradient of an autoencoder's loss with respect to its outputs, logit - target.

The loss of a sample is half the sum of ``(logit - target)**2`` over its outputs. The difference is rounded once, to
Q4.12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, described
from ..fixed import Q4_12, Q8_16, Integers, Narrower
from ..rng.urng import BIT


def mse_gradient(logits: Integers, targets: Integers, narrow: Narrower) -> Integers:
    """Gradients logits - targets, from Q8.16 to Q4.12, half to even and saturated; `narrow` counts clipped values."""
    return narrow(logits - targets, Q8_16, Q4_12)


def rate_scale(outputs: int) -> float:
    """Factor from a learning rate for PyTorch's mean squared error to a learning rate for the loss."""
    return 2 / outputs


@dataclass(frozen=True, kw_only=True)
class MselossSpec(Spec):
    """Model of `mseloss`, which has no parameters."""

    name: ClassVar[str] = "mseloss"
    summary: ClassVar[str] = "gradient of the squared error: a sample's outputs, less what they should be"

    @property
    def latency(self) -> int:
        """Cycles from input to output: one for the difference, three for rounding."""
        return 4

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes logits, `target` a word for each; `o` gives gradients."""
        return described(
            {
                "i": Stream(
                    "in",
                    (Field("logit", Q8_16), Field("last", BIT)),
                    doc="``logit`` in Q8.16, and ``last`` on a sample's last one; a word a cycle, each taken with "
                    "its target.",
                ),
                "target": Stream("in", (Field("target", Q8_16),), doc="What each logit should be."),
                "o": Stream(
                    "out",
                    (
                        Field("gradient", Q4_12, doc="logit - target, rounded half to even, saturated"),
                        Field("clipped", BIT, doc="the difference was beyond ±8"),
                        Field("last", BIT),
                    ),
                    doc="``gradient`` in Q4.12, ``clipped`` where it is beyond that, and ``last``; in the same order.",
                ),
            },
            {
                "o.last": "as on `i`",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Gradients of all logits with a target."""
        pairs = zip(inputs["i"]["logit"][:words], inputs["target"]["target"], strict=False)
        gradients = []
        for logit, target in pairs:
            narrow = Narrower()
            gradients.append([int(mse_gradient(logit, target, narrow)[0]), narrow.saturations])
        columns = np.array(gradients, np.int64).reshape(-1, 2).T[:, :, None]
        return {"o": {"gradient": columns[0], "clipped": columns[1], "last": inputs["i"]["last"][: len(gradients)]}}
