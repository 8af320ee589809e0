"""`tile_array`: weight-stationary array of multipliers; rows pass, a tile a matrix product, the next tile loads beside.

Sums are exact. Which weights meet a row follows from the rows alone: one marked `swap` is the first of the next tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words, tag_fields
from ...errors import UserError
from ...fixed import Q8_16, Format, matmul
from ...rng.urng import BIT

Q4_14 = Format(4, 14)
"""Stationary weights, and whatever has 18 bits: keys and values of Q6.12 too."""
SUM = Format(18, Q8_16.fraction + Q4_14.fraction)
"""Sums of 48 bits, as a DSP's."""
LARGEST_LANES = 1 << (SUM.width - 1 - (Q8_16.width - 1) - (Q4_14.width - 1))
"""From so many products of most negative operands on a sum would not fit."""


@dataclass(frozen=True, kw_only=True)
class TileArraySpec(Spec):
    """Parameters and model of `tile_array`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: an even number, half of which is in each of the two cascades of a column. Refused: outside 4
        to 126, where sums of 48 bits are exact; odd, as there are two cascades.
    columns : int
        Outputs of a tile, 1 to 64.
    tag : int
        Width of a field that passes through with a row unchanged, 0 to 32.
    """

    name: ClassVar[str] = "tile_array"
    summary: ClassVar[str] = "weight-stationary array: rows times tiles, two DSP cascades a column, the next tile loads"

    presets: ClassVar[dict[str, dict[str, object]]] = {"small": {"lanes": 16, "columns": 4}}

    lanes: int = 32
    columns: int = 16
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 4 <= self.lanes < LARGEST_LANES or self.lanes % 2:
            raise UserError(f"lanes = {self.lanes} is not an even number from 4 to {LARGEST_LANES - 2}")
        if not 1 <= self.columns <= 64:
            raise UserError(f"columns = {self.columns} is not in 1 to 64")
        tag_fields(self.tag)

    @property
    def beats(self) -> int:
        """Beats of a tile, and places of a cascade."""
        return self.lanes // 2

    @property
    def latency(self) -> int:
        """Cycles from a row to its sums: inputs, operands, products, a cascade, and the sum of both cascades."""
        return 3 + self.beats + 1

    def cycles(self, rows: Sequence[int]) -> int:
        """Cycles for tiles, each with so many rows, if no stream ever waits: from the first beat to the last sums.

        The first tile's beats take a cycle each, and so do all rows. A tile with fewer rows than the next one has beats
        waits for those.
        """
        return self.beats + sum(max(some, self.beats) for some in rows[:-1]) + rows[-1] + self.latency

    def streams(self) -> dict[str, Stream]:
        """Streams: `w` takes tiles, two lanes a beat, lane by lane; `x` rows, and `o` gives their sums."""
        tag = tag_fields(self.tag)
        return {
            "w": Stream(
                "in",
                (
                    Field(
                        "weight",
                        Q4_14,
                        2 * self.columns,
                        doc="beat b: lane 2b, all columns, then lane 2b + 1; the order of the codes in the stream of"
                        " weights",
                    ),
                ),
                doc="A beat of a tile, the weights of two lanes. A tile's first beat, once taken, waits inside for "
                "the rows that swap the tile before it.",
            ),
            "x": Stream(
                "in",
                (
                    Field("value", Q8_16, self.lanes, doc="lane 0 in the lowest bits"),
                    Field("swap", BIT, doc="the first row of the next tile; the first row of all is one"),
                    *tag,
                ),
                doc="A row. One marked `swap` is the first of the next tile, and waits until that one is complete.",
            ),
            "o": Stream(
                "out",
                (Field("sum", SUM, self.columns, doc="exact sums of products, column 0 in the lowest bits"), *tag),
                doc="Exact sums of a row.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Multiply each row by its tile; rows from a swap on whose tile is not complete give nothing.

        Raises
        ------
        UserError
            If the first row is not marked `swap`: there is no tile for it.
        """
        rows, swap = inputs["x"]["value"], inputs["x"]["swap"][:, 0]
        if len(rows) and not swap[0]:
            raise UserError("the first row has no tile: mark it swap")
        weights = inputs["w"]["weight"].reshape(-1, 2 * self.columns)
        complete = len(weights) // self.beats
        tiles = weights[: complete * self.beats].reshape(complete, self.lanes, self.columns)
        groups = np.split(np.arange(len(rows)), np.flatnonzero(swap)[1:])
        sums = [matmul(rows[group], tile) for group, tile in zip(groups, tiles, strict=False)]
        found = np.concatenate(sums)[:words] if sums else np.zeros((0, self.columns), np.int64)
        return {"o": {"sum": found} | ({"tag": inputs["x"]["tag"][: len(found)]} if self.tag else {})}
