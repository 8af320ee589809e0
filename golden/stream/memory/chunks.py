"""Addresses in the activation memory: a chunk is `columns` values of a token; chunks lie by group of features and row.

A row of the narrow memory has `lanes` values: several chunks. A row of the wide memory is one chunk. The tokens of a
group have consecutive addresses; groups are `stride` addresses apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...errors import UserError, check_power, check_range
from ...fixed import Format


class ValueAddress(NamedTuple):
    """Memory of a value, and address of its first token's first chunk: the `Buffer`'s first row times the stride."""

    wide: bool
    base: int


class Chunk(NamedTuple):
    """Address of a token's chunk; `part` is its index in the memory row, 0 in the wide memory."""

    wide: bool
    address: int
    part: int


@dataclass(frozen=True)
class ChunkLayout:
    """Rows of both memories, and their parts.

    Raises `UserError` if a size is out of range.

    Parameters
    ----------
    lanes : int
        Values of a row of the narrow memory: a power of two from 4 to 64.
    columns : int
        Values of a chunk, and of a row of the wide memory: a power of two, at most `lanes`.
    rows, wide_rows : int
        Rows of the narrow and of the wide memory.
    """

    lanes: int = 32
    columns: int = 16
    rows: int = 12_288
    wide_rows: int = 4_096

    def __post_init__(self) -> None:
        check_power("lanes", self.lanes, 4, 64)
        if not 1 <= self.columns <= self.lanes or self.columns & (self.columns - 1):
            raise UserError(f"columns = {self.columns} is not a power of two up to {self.lanes}, the lanes")
        for name in ("rows", "wide_rows"):
            check_range(name, getattr(self, name), 2, 1 << 20)

    @property
    def parts(self) -> int:
        return self.lanes // self.columns

    @property
    def address(self) -> Format:
        return Format.up_to(max(self.rows, self.wide_rows) - 1)

    @property
    def part(self) -> Format:
        """Format of a part's index, at least one bit."""
        return Format.up_to(max(1, self.parts - 1))

    def chunk(self, place: ValueAddress, group: int, row: int, stride: int) -> Chunk:
        """Chunk of row `row` of all sides; `group` is the first feature divided by `columns`.

        `stride`, the distance between groups, is the tokens of all sides in the buffers.
        """
        line, part = (group, 0) if place.wide else divmod(group, self.parts)
        return Chunk(place.wide, place.base + line * stride + row, part)
