"""`nf4_dequant`: NF4 codes to Q8.16, many lanes per cycle, each with a scale of the word.

Results match `codec.dequantise`. A word has the scales of all blocks of the lanes, and for each lane the index of a
scale, as blocks need not end at word boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import Field, Spec, Stream, Words, tag_fields
from ..errors import check_range
from ..fixed import Q8_16, Format
from .codec import dequantise

CODE = Format(4, 0, signed=False)
SCALE = Format(7, 16, signed=False)
"""Format of a block's largest magnitude: Q8.16 without its sign."""


@dataclass(frozen=True, kw_only=True)
class Nf4DequantSpec(Spec):
    """Parameters and model of `nf4_dequant`.

    Parameters
    ----------
    lanes : int
        Values a cycle, 1 to 1024.
    scales : int
        Scales of a word, 1 to 64; each lane selects one, as blocks need not end at word boundaries.
    tag : int
        Bits that pass through unchanged, 0 to 32.
    """

    name: ClassVar[str] = "nf4_dequant"
    summary: ClassVar[str] = "NF4 codes to Q8.16: level times scale, rounded half to even, one DSP per lane"

    lanes: int = 32
    scales: int = 4
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("lanes", self.lanes, 1, 1024)
        check_range("scales", self.scales, 1, 64)
        tag_fields(self.tag)

    @property
    def select_bits(self) -> int:
        """Width of a lane's scale index; 0 for a single scale."""
        return (self.scales - 1).bit_length()

    @property
    def latency(self) -> int:
        """Cycles from input to output: operands, product, rounding, output."""
        return 4

    def streams(self) -> dict[str, Stream]:
        tag = tag_fields(self.tag)
        select = (
            (
                Field(
                    "select",
                    Format(self.select_bits, 0, signed=False),
                    self.lanes,
                    doc="which scale a lane takes; a number beyond the last takes the last. Only where there is more"
                    " than one",
                ),
            )
            if self.select_bits
            else ()
        )
        return {
            "i": Stream(
                "in",
                (
                    Field("code", CODE, self.lanes, doc="lane 0 in the lowest bits"),
                    Field("scale", SCALE, self.scales, doc="largest magnitudes of blocks, 23 bits each"),
                    *select,
                    *tag,
                ),
                doc="Codes, the scales of their blocks and for each lane the index of its scale. `select` only with "
                "two scales or more, `tag` only where it has bits. `ready` while the stages move.",
            ),
            "o": Stream(
                "out",
                (Field("value", Q8_16, self.lanes), *tag),
                doc="Level times scale, rounded half to even, and the tag of the word.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Values of each word; an index beyond the last scale selects the last."""
        fields = {name: column[:words] for name, column in inputs["i"].items()}
        select = fields.get("select", np.zeros_like(fields["code"])).clip(max=self.scales - 1)
        scales = np.take_along_axis(fields["scale"], select, axis=1)
        # a lane is a block of one value
        values = dequantise(fields["code"].astype(np.uint8)[..., None], scales)[..., 0]
        return {"o": {"value": values} | ({"tag": fields["tag"]} if self.tag else {})}
