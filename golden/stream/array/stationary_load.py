"""`stationary_load`: rows of keys or values to the tiles of `tile_array`.

A key becomes a column of its tile, so rows of keys are transposed. A part of a value's row becomes a lane. Features of
other heads in the same row are loaded as zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words
from ...errors import UserError, check_power
from ...fixed import Q8_16, Format, Integers
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from .tile_array import Q4_14


@dataclass(frozen=True, kw_only=True)
class StationaryLoadSpec(Spec):
    """Parameters and model of `stationary_load`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile, and values of a row: a power of two from 4 to 64.
    columns : int
        Outputs of a tile: a power of two, at most `lanes`.
    """

    name: ClassVar[str] = "stationary_load"
    summary: ClassVar[str] = "keys and values of attention to tiles of the array: keys are columns, values are lanes"
    presets: ClassVar[dict[str, dict[str, object]]] = {"small": {"lanes": 16, "columns": 4}}

    lanes: int = 32
    columns: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_power("lanes", self.lanes, 4, 64)
        if not 1 <= self.columns <= self.lanes or self.columns & (self.columns - 1):
            raise UserError(f"columns = {self.columns} is not a power of two up to {self.lanes}, the lanes")

    @property
    def beats(self) -> int:
        return self.lanes // 2

    @property
    def parts(self) -> int:
        """Parts of a row, `columns` features each."""
        return self.lanes // self.columns

    @property
    def part_number(self) -> Format:
        """Format of a part's number, at least one bit."""
        return Format.up_to(max(1, self.parts - 1))

    @property
    def latency(self) -> int:
        """Cycles from the arrival of a tile's last row to the tile's first beat: row, memory, output."""
        return 3

    def streams(self) -> dict[str, Stream]:
        flags = (
            Field("turn", BIT, doc="1: keys, a tile has `columns` rows; 0: values, a tile has `lanes` rows"),
            Field("part", self.part_number, doc="of a value's row: which features are the columns"),
            Field(
                "zero",
                BIT,
                self.parts,
                doc="the part counts as zeros: features of other heads, or all of them of a token behind the "
                "sentence's end",
            ),
        )
        return {
            "i": Stream(
                "in",
                (
                    Field(
                        "value",
                        Q8_16,
                        self.lanes,
                        doc="lane 0 in the lowest bits; of each place the 18 bits of a key or value count, Q6.12",
                    ),
                    *flags,
                ),
                doc="A row: a key where `turn` is 1, else a value, of which `part` chooses as many features as there"
                " are columns. `zero` has a bit for each part: it counts as zeros. The rows of a tile have one "
                "`turn` and one `part`.",
            ),
            "o": Stream(
                "out",
                (Field("weight", Q4_14, 2 * self.columns, doc="beat b: lane 2b, all columns, then lane 2b + 1"),),
                doc="Beats of tiles, two lanes each.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Beats of the tiles; an incomplete last tile has no beats.

        Raises `UserError` if rows of a tile differ in `turn` or `part`.
        """
        fields, start, tiles = inputs["i"], 0, list[Integers]()
        half = 1 << (Q4_14.width - 1)
        # the array takes the low 18 bits of each value
        zero = np.repeat(fields["zero"], self.columns, axis=1)
        values = np.where(zero, 0, (fields["value"] + half & 2 * half - 1) - half)
        while start < len(values):
            turn, part = (int(fields[name][start, 0]) for name in ("turn", "part"))
            rows = slice(start, start + (self.columns if turn else self.lanes))
            if len(values) < rows.stop:
                break
            if (fields["turn"][rows] != turn).any() or (not turn and (fields["part"][rows] != part).any()):
                raise UserError(f"rows {rows.start} to {rows.stop - 1} are of one tile, and differ in turn or part")
            tile = values[rows]
            tiles.append(tile.T if turn else tile[:, part * self.columns : (part + 1) * self.columns])
            start = rows.stop
        beats = np.array(tiles, np.int64).reshape(-1, 2 * self.columns)
        return {"o": {"weight": beats[:words]}}

    @property
    def memory(self) -> MemoryShape:
        """Memory of a column: two tiles, two lanes per word."""
        return MemoryShape("stationary tiles", 2 * self.beats, 2 * Q4_14.width, count=self.columns)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (self.memory,)
