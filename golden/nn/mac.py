"""`mac`: array of multipliers with one sum per column across the lanes, or one sum per multiplier.

Output-stationary: a sum stays in its register while words stream in. Products and sums are exact; only sums across the
lanes are narrowed to activations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError, check_power, check_range
from ..fixed import Q4_12, Q8_16, Format, Integers, accumulator_width, narrow
from ..rng.urng import BIT
from .arithmetic.forward import PRODUCT_FRACTION
from .array.latency import across_latency, within_latency


@dataclass(frozen=True, kw_only=True)
class MacSpec(Spec):
    """Parameters and model of `mac`.

    Parameters
    ----------
    lanes : int
        Activations per word, a power of two. Refused: anything but a power of two from 2 to 64: the lanes are added up
        in pairs.
    columns : int
        Number of columns; each multiplies all lanes. From 1 to 16.
    terms : int
        Mode `across`: maximum number of products of a sum, lanes times words; it determines the sum's width. Refused:
        below `lanes`, the products of one word; above 16384.
    batch : int
        Mode `within`: maximum number of words of a sum, 1 to 256.
    mode : "across" or "within"
        One sum per column over all lanes; or one sum per multiplier, with a column's parameter sent to all lanes.
    """

    name: ClassVar[str] = "mac"
    summary: ClassVar[str] = "lanes x columns multipliers: sums across the lanes, narrowed, or exact ones within"

    lanes: int = 32
    columns: int = 4
    terms: int = 3072
    batch: int = 20
    mode: Literal["across", "within"] = "across"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_power("lanes", self.lanes, 2, 64)
        check_range("columns", self.columns, 1, 16)
        if not self.lanes <= self.terms <= 1 << 14:
            raise UserError(f"terms = {self.terms} is not in {self.lanes}, one word, to {1 << 14}")
        check_range("batch", self.batch, 1, 256)

    @property
    def across(self) -> bool:
        """Whether sums are across the lanes."""
        return self.mode == "across"

    @property
    def longest(self) -> int:
        """Words of the longest sum."""
        return self.terms // self.lanes if self.across else self.batch

    @property
    def latency(self) -> int:
        """Cycles from a sum's last word to the sum."""
        return across_latency(self.lanes) if self.across else within_latency()

    @property
    def sum_format(self) -> Format:
        """Format of an exact sum within a multiplier."""
        return Format(accumulator_width(Q8_16, Q4_12, self.batch) - PRODUCT_FRACTION, PRODUCT_FRACTION)

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes words, `o` gives a sum for each word marked `last`."""
        parameters = self.lanes * self.columns if self.across else self.columns
        bias = (Field("bias", Q4_12, self.columns, doc="across only: of a word marked `first`"),) if self.across else ()
        fields = (
            Field("x", Q8_16, self.lanes, doc="lane 0 in the lowest bits"),
            Field("w", Q4_12, parameters, doc="lane by lane, column 0 lowest; within, a column's goes to all lanes"),
            *bias,
        )
        result = (
            Field("y", Q8_16, self.columns, doc="across: rounded half to even, saturated")
            if self.across
            else Field("sum", self.sum_format, self.lanes * self.columns)
        )
        return {
            "i": Stream(
                "in",
                (
                    *fields,
                    Field("first", BIT, doc="a sum begins with this word; the sum so far leaves"),
                    Field("last", BIT, doc="a sum begins with this word; the sum so far leaves"),
                ),
                doc="A word: ``x``, ``w``, across the lanes ``bias``, ``first``, ``last``.",
            ),
            "o": Stream(
                "out",
                (result,),
                doc="Sums of the words marked ``last``: ``y`` across the lanes in Q8.16, ``sum`` within them, exact."
                " Latency: `MacSpec.latency`.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Sums; a word marked `first` begins a sum, a word marked `last` outputs it."""
        given = inputs["i"]
        results = [row for row, last in zip(self._sums(given), given["last"][:, 0], strict=True) if last]
        name, lanes = ("y", self.columns) if self.across else ("sum", self.lanes * self.columns)
        values = np.array(results, np.int64).reshape(-1, lanes)[:words]
        return {"o": {name: narrow(values, PRODUCT_FRACTION, Q8_16) if self.across else values}}

    def _sums(self, given: Words) -> list[Integers]:
        """Running sum after each word."""
        x, w, first = given["x"], given["w"].reshape(len(given["w"]), -1, self.columns), given["first"][:, 0]
        if self.across:
            products = np.einsum("nl,nlc->nc", x, w)
            starts = given["bias"] << Q8_16.fraction
        else:
            products = (x[:, :, None] * w).reshape(len(x), -1)
            starts = np.zeros_like(products)
        sums, total = [], np.zeros(products.shape[1], np.int64)
        for product, start, begins in zip(products, starts, first, strict=True):
            total = (start if begins else total) + product
            sums.append(total)
        return sums
