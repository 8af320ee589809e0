"""Common parameters and results of blocks that compute a value for each lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...block import Field, Spec, Stream, Words, tag_fields
from ...errors import check_range
from ...fixed import Format, Integers
from ...rng.urng import BIT


@dataclass(frozen=True, kw_only=True)
class LanewiseSpec(Spec):
    """Parameters and results of a block with a value for each lane.

    Parameters
    ----------
    lanes : int
        Values a cycle, 1 to 64.
    tag : int
        Bits of a field that passes through unchanged, 0 to 32.
    """

    lanes: int = 4
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("lanes", self.lanes, 1, 64)
        tag_fields(self.tag)

    def ports(self, inputs: tuple[Field, ...], value: Format) -> dict[str, Stream]:
        """Streams: `i` has the given fields, `o` a value and a clipping flag for each lane; both have the tag."""
        tag = tag_fields(self.tag)
        return {
            "i": Stream("in", (*inputs, *tag)),
            "o": Stream("out", (Field("value", value, self.lanes), Field("clipped", BIT, self.lanes), *tag)),
        }

    def saturated(
        self, inputs: Words, rounded: Integers, least: Integers | int, most: Integers | int
    ) -> dict[str, Words]:
        """Words of `o`: rounded values saturated to a range, flags of clipped values, and the tag."""
        value = np.clip(rounded, least, most)
        clipped = (value != rounded).astype(np.int64)
        return {"o": {"value": value, "clipped": clipped} | ({"tag": inputs["tag"]} if self.tag else {})}
