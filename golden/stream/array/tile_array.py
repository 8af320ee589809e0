"""`tile_array`: weight-stationary array of multipliers; the next tile loads while rows of the current tile pass.

Sums are exact. A row marked `swap` is the first of the next tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words, tag_fields
from ...errors import UserError, check_range
from ...fixed import Q8_16, Format, matmul
from ...rng.urng import BIT

Q4_14 = Format(4, 14)
"""Format of stationary operands; keys and values put Q6.12 into the same 18 bits."""
SUM = Format(18, Q8_16.fraction + Q4_14.fraction)
"""Format of a tile's sums: 48 bits, as a DSP accumulates."""
LANES_LIMIT = 1 << (SUM.width - 1 - (Q8_16.width - 1) - (Q4_14.width - 1))
"""Smallest number of products whose sum can exceed `SUM`."""


@dataclass(frozen=True, kw_only=True)
class TileArraySpec(Spec):
    """Parameters and model of `tile_array`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: even, 4 to 126, half in each of a column's two DSP cascades. More inputs would overflow the
        48-bit sums.
    columns : int
        Outputs of a tile, 1 to 64.
    tag : int
        Bits that pass through with a row unchanged, 0 to 32.
    """

    name: ClassVar[str] = "tile_array"
    summary: ClassVar[str] = (
        "weight-stationary array: multiplies rows by a tile while the next tile loads; two DSP cascades a column"
    )

    presets: ClassVar[dict[str, dict[str, object]]] = {"small": {"lanes": 16, "columns": 4}}

    lanes: int = 32
    columns: int = 16
    tag: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 4 <= self.lanes < LANES_LIMIT or self.lanes % 2:
            raise UserError(f"lanes = {self.lanes} is not an even number from 4 to {LANES_LIMIT - 2}")
        check_range("columns", self.columns, 1, 64)
        tag_fields(self.tag)

    @property
    def beats(self) -> int:
        """Beats of a tile, and DSP slices of a cascade."""
        return self.lanes // 2

    @property
    def latency(self) -> int:
        """Cycles from a row to its sums: inputs, operands, products, cascade, and the sum of both cascades."""
        return 3 + self.beats + 1

    def cycles(self, rows: Sequence[int]) -> int:
        """Cycles from the first beat to the last sums for tiles of `rows` rows each, without back-pressure.

        The first tile takes a cycle per beat to load. A tile with fewer rows than `beats` ends only when the next tile
        has loaded.
        """
        return self.beats + sum(max(count, self.beats) for count in rows[:-1]) + rows[-1] + self.latency

    def streams(self) -> dict[str, Stream]:
        tag = tag_fields(self.tag)
        return {
            "w": Stream(
                "in",
                (
                    Field(
                        "weight",
                        Q4_14,
                        2 * self.columns,
                        doc="beat b: all columns of lane 2b, then of lane 2b + 1; the order of the codes in the weight"
                        " stream",
                    ),
                ),
                doc="A beat of a tile: the weights of two lanes. A tile's first beat is accepted, then waits until "
                "the previous tile has been swapped in.",
            ),
            "x": Stream(
                "in",
                (
                    Field("value", Q8_16, self.lanes, doc="lane 0 in the lowest bits"),
                    Field("swap", BIT, doc="the first row of the next tile; set in the very first row"),
                    *tag,
                ),
                doc="A row. A row with `swap` waits until the next tile is complete.",
            ),
            "o": Stream(
                "out",
                (Field("sum", SUM, self.columns, doc="exact sums of products, column 0 in the lowest bits"), *tag),
                doc="Exact sums of a row.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Products of each row with its tile; rows of an incomplete tile have no products.

        Raises `UserError` if the first row is not marked `swap`.
        """
        rows, swap = inputs["x"]["value"], inputs["x"]["swap"][:, 0]
        if len(rows) and not swap[0]:
            raise UserError("the first row has no tile: mark it swap")
        weights = inputs["w"]["weight"].reshape(-1, 2 * self.columns)
        complete = len(weights) // self.beats
        tiles = weights[: complete * self.beats].reshape(complete, self.lanes, self.columns)
        tile_rows = np.split(np.arange(len(rows)), np.flatnonzero(swap)[1:])
        sums = [matmul(rows[indices], tile) for indices, tile in zip(tile_rows, tiles, strict=False)]
        products = np.concatenate(sums)[:words] if sums else np.zeros((0, self.columns), np.int64)
        return {"o": {"sum": products} | ({"tag": inputs["x"]["tag"][: len(products)]} if self.tag else {})}
