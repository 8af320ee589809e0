"""`perturb`: weight lanes that compute ``w + sign * eps * s * u`` in Q4.12 (PeZO, equation 1).

``eps = 2**-eps_shift`` is wiring. The scaled number is rounded, half to even, to the weights' fraction *before* the
addition. So rounding is an odd function of the number and independent of the weight: plus and minus are exact
opposites, and with wrapping additions a perturbation can be undone bit for bit. A plain shift in place of rounding has
a bias of half a last place. On the sum, it would reduce every weight with every perturbation of either sign. On the
step, as with `truncate`, it moves weights down for plus and up for minus.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ..block import Field, Spec, Stream, Words, tag_fields
from ..errors import UserError, check_range
from ..fixed import Q4_12, Format, Integers, Overflow, Rounding, narrow
from ..rng.perturbation import over_lanes

SIGN = Format(2, 0)
MOST_LANES = 1024
"""Four times the multipliers of the largest array; `fabtune emit` takes half a minute for so many."""


@dataclass(frozen=True, kw_only=True)
class PerturbSpec(Spec):
    """Parameters and model of `perturb`.

    Parameters
    ----------
    lanes : int
        Weights a cycle, 1 to 1024.
    numbers : int
        Numbers a cycle, n, 1 to 1024; lane j takes number ``j mod n``.
    number : str
        Signed format of a number.
    odd : bool
        True if an integer y represents ``y + 1/2`` last places, as in `urng`.
    scale : str
        Unsigned format of the factor beside the numbers; empty for already scaled numbers.
    eps_shift : int
        ``eps = 2**-eps_shift``; 10 is MeZO's 1e-3. Refused unless 1 to 40 bits are rounded off and a step is no wider
        than a weight.
    rounding : "half-even" or "truncate"
        Rounding of the scaled number; `truncate` shows the bias.
    overflow : "saturate" or "wrap"
        Overflow of the sum; wrapping can be undone exactly.
    tag : int
        Bits that pass through unchanged, 0 to 32.
    """

    name: ClassVar[str] = "perturb"
    summary: ClassVar[str] = "weight lanes: w + sign * eps * s * u in Q4.12, rounded, saturating or wrapping"

    lanes: int = 1
    numbers: int = 1
    number: str = "Q2.10"
    odd: bool = False
    scale: str = ""
    eps_shift: int = 10
    rounding: Literal["half-even", "truncate"] = "half-even"
    overflow: Literal["saturate", "wrap"] = "saturate"
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("lanes", "numbers"):
            check_range(what, getattr(self, what), 1, MOST_LANES)
        tag_fields(self.tag)
        if not self.number_format.signed:
            raise UserError(f"number = {self.number} is unsigned, but numbers have both signs: write Q for U")
        if self.scale_format is not None and self.scale_format.signed:
            raise UserError(f"scale = {self.scale} is signed: a modulus is not; write U for Q")
        if not 1 <= self.shift <= 40:
            raise UserError(
                f"eps_shift = {self.eps_shift} leaves {self.shift} bits to round off, which must be 1 to 40: "
                f"take {self.eps_shift + 1 - self.shift} to {self.eps_shift + 40 - self.shift}"
            )
        if self.delta_format.width > Q4_12.width:
            raise UserError(f"eps_shift = {self.eps_shift}: a step of {self.delta_format} exceeds a weight; raise it")

    @property
    def number_format(self) -> Format:
        return Format.parse(self.number)

    @property
    def scale_format(self) -> Format | None:
        return Format.parse(self.scale) if self.scale else None

    @property
    def used(self) -> int:
        return min(self.lanes, self.numbers)

    @property
    def product_format(self) -> Format:
        number, factor = self.number_format, self.scale_format
        integer, fraction = number.integer, number.fraction + self.odd
        if factor:
            integer, fraction = integer + factor.integer, fraction + factor.fraction
        return Format(integer, fraction)

    @property
    def shift(self) -> int:
        """Bits of the exact product below the weights' last place."""
        return self.product_format.fraction + self.eps_shift - Q4_12.fraction

    @cached_property
    def delta_format(self) -> Format:
        """Format of the rounded step in the weights' last places, for the worst case."""
        least = self.product_format.minimum
        step = -int(narrow(least, self.shift, Format(32, 0), Rounding(self.rounding)))
        return Format(max(step, 1).bit_length() + 1, 0)

    def delta(self, number: Integers, scale: Integers | None = None) -> Integers:
        """Step of each number in the weights' last places: (words, n) from (words, n) and (words, 1)."""
        product = 2 * number + 1 if self.odd else number
        if scale is not None:
            product = product * scale
        return narrow(product, self.shift, Format(32, 0), Rounding(self.rounding))

    def apply(self, weights: Integers, delta: Integers, sign: Integers) -> Integers:
        """Weights plus or minus steps, Q4.12; unchanged for sign 0 or -2."""
        factor = np.where(sign & 1, sign, 0)
        return narrow(weights + factor * over_lanes(delta, self.lanes), Q4_12, Q4_12, overflow=Overflow(self.overflow))

    # -- the block -------------------------------------------------------------------------------------------------

    @property
    def latency(self) -> int:
        """Cycles from input to output: a register after the adders, and one before them if there is a product."""
        return 2 if self.scale else 1

    def streams(self) -> dict[str, Stream]:
        weight = Field("weight", Q4_12, self.lanes, doc="weight 0 in the lowest bits")
        factor = (Field("scale", self.scale_format),) if self.scale_format else ()
        number = Field("number", self.number_format, self.used)
        return {
            "i": Stream(
                "in",
                (
                    weight,
                    number,
                    *factor,
                    Field("sign", SIGN, doc="+1, -1, 0; -2 leaves the weights alone as 0 does"),
                    *tag_fields(self.tag),
                ),
                doc="Weights and random numbers; lane j takes number j mod n. `scale` only where the spec has a "
                "format for it, `tag` only where it has bits. `sign` bit 0: perturb at all; bit 1: subtract.",
            ),
            "o": Stream("out", (weight, *tag_fields(self.tag)), doc="The perturbed weights and the tag of the word."),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        fields = {name: column[:words] for name, column in inputs["i"].items()}
        delta = self.delta(fields["number"], fields.get("scale"))
        result = {"weight": self.apply(fields["weight"], delta, fields["sign"])}
        return {"o": result | ({"tag": fields["tag"]} if self.tag else {})}
