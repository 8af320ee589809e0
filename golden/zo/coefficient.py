"""`coefficient`: coefficient of a zeroth-order step's perturbation, from the loss differences of its samples.

``c = - round half even (sum of differences * rate >> shift)``, saturated. The product is exact in 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, described, packets_of
from ..errors import UserError
from ..fixed import Format, Narrower
from ..memories.plan import MemoryShape
from ..nn.celoss import LABEL
from ..rng.urng import BIT
from .loss_difference import DIFFERENCE

COEFFICIENT = Format(27, 0)
"""Format of a coefficient: the 27-bit operand of a DSP."""
RATE = Format(16, 0, signed=False)
"""Format of a step's rate."""
SHIFT = Format(6, 0, signed=False)
"""Format of a step's shift."""
LARGEST_SHIFT = 62
LARGEST_BATCH = 256
"""Largest number of samples of a step: loss difference times rate then fits 64 bits."""
LABEL_MEMORY = MemoryShape("labels", LARGEST_BATCH, LABEL.width, lut_rows=LARGEST_BATCH)
"""Memory of the labels of a step's samples."""
STEP_DIFFERENCE = Format(DIFFERENCE.integer + (LARGEST_BATCH - 1).bit_length(), DIFFERENCE.fraction)
"""Format of a step's loss difference, the exact sum over its samples: Q19.29."""


def coefficient_of(difference: int, rate: int, shift: int, narrow: Narrower) -> int:
    """Coefficient of a step, in `COEFFICIENT`; `narrow` counts clipping.

    `difference` is the step's loss difference in `STEP_DIFFERENCE`, `rate` is in `RATE`, `shift` is 0 to
    `LARGEST_SHIFT`.
    """
    return int(narrow(-difference * rate, shift, COEFFICIENT))


@dataclass(frozen=True, kw_only=True)
class CoefficientSpec(Spec):
    """Model of `coefficient`, without parameters."""

    name: ClassVar[str] = "coefficient"
    summary: ClassVar[str] = "coefficient of a zeroth-order step: its loss difference times a rate, rounded, saturating"
    overhead: ClassVar[int] = RATE.width + 5
    """Cycles of the multiplication and of the registers around it."""

    def latency_of(self, shift: int) -> int:
        """Cycles from a step's last difference to its coefficient."""
        return self.overhead + shift

    def period(self, samples: int, shift: int) -> int:
        """Cycles between the first differences of consecutive steps, without stalls."""
        return samples + self.latency_of(shift)

    def streams(self) -> dict[str, Stream]:
        return described(
            {
                "i": Stream(
                    "in",
                    (Field("difference", DIFFERENCE), Field("last", BIT)),
                    doc="Loss differences of a step's samples, 1 to 256; `last` with the final one. One a cycle, "
                    "until the final one; again once `o` was taken.",
                ),
                "rate": Stream(
                    "in",
                    (Field("rate", RATE), Field("shift", SHIFT, doc="0 to 62")),
                    doc="Factor of a step, and how far its product is shifted; taken in the cycle after the final "
                    "difference, or later.",
                ),
                "o": Stream(
                    "out",
                    (
                        Field("difference", STEP_DIFFERENCE),
                        Field("coefficient", COEFFICIENT, doc="round half even (-sum x rate / 2^shift), saturated"),
                        Field("clipped", BIT, doc="the rounded number was beyond 27 bits"),
                    ),
                    doc="A step's sum, its coefficient, and whether that was beyond 27 bits; one word a step.",
                ),
            },
            {
                "o.difference": "exact sum of the step's loss differences",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Words of all complete steps.

        Raises `UserError` if a step has too many samples or too large a shift.
        """
        differences, rates = inputs["i"]["difference"][:, 0], inputs["rate"]
        rows = []
        steps = zip(packets_of(inputs["i"]["last"]), rates["rate"][:, 0], rates["shift"][:, 0], strict=False)
        for (start, end), rate, shift in steps:
            if end - start > LARGEST_BATCH:
                raise UserError(f"a step of {end - start} samples; the largest has {LARGEST_BATCH}")
            if shift > LARGEST_SHIFT:
                raise UserError(f"shift = {shift} is not in 0 to {LARGEST_SHIFT}")
            difference, narrow = int(differences[start:end].sum()), Narrower()
            coefficient = coefficient_of(difference, int(rate), int(shift), narrow)
            rows.append([difference, coefficient, narrow.saturations])
        columns = np.array(rows[:words], np.int64).reshape(-1, 3).T[:, :, None]
        return {"o": dict(zip(("difference", "coefficient", "clipped"), columns, strict=True))}
