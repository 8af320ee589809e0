"""`partial_sums`: exact sums over tiles, one row per cycle; complete rows leave in parts through a queue.

The products of a row and a tile are one term of the row's sums. The first tile's term begins the sums, the last tile's
term completes them. A term has 48 bits, a sum 56: weight rows of real networks can exceed 48 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words, described
from ...errors import UserError, check_range
from ...fixed import Q8_16, Format, Integers
from ...memories.plan import MemoryShape, fifo_memory
from ...rng.urng import BIT
from .tile_array import Q4_14, SUM

TOTAL = Format(26, SUM.fraction)
"""Sums over tiles, 56 bits."""
MOST_INPUTS = TOTAL.maximum // (Q8_16.minimum * Q4_14.minimum)
"""Number of products, of any operands, with an exact sum."""


@dataclass(frozen=True, kw_only=True)
class PartialSumsSpec(Spec):
    """Parameters and model of `partial_sums`.

    Parameters
    ----------
    columns : int
        Sums of a row, 1 to 64.
    sums : int
        Rows with unfinished sums, and rows of the queue of complete sums: a power of two from 4 to 4,096.
    drain : int
        Output sums per cycle; divides `columns`.
    """

    name: ClassVar[str] = "partial_sums"
    summary: ClassVar[str] = "exact 56-bit sums over tiles, a row a cycle; complete rows leave a few sums a cycle"

    columns: int = 16
    sums: int = 256
    drain: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("columns", self.columns, 1, 64)
        if not 4 <= self.sums <= 4096 or self.sums & (self.sums - 1):
            raise UserError(f"sums = {self.sums} rows are not a power of two from 4 to 4096")
        if self.drain < 1 or self.columns % self.drain:
            raise UserError(f"drain = {self.drain} sums a cycle do not divide {self.columns} columns")

    @property
    def parts(self) -> int:
        """Output words of a row."""
        return self.columns // self.drain

    @property
    def row_number(self) -> Format:
        return Format.up_to(self.sums - 1)

    @property
    def part_number(self) -> Format:
        """Format of a part's number, at least one bit."""
        return Format.up_to(max(1, self.parts - 1))

    @property
    def latency(self) -> int:
        """Cycles from the last term to the first part: memory, sum, two of the queue, output."""
        return 5

    def streams(self) -> dict[str, Stream]:
        flags = (
            Field("row", self.row_number),
            Field("first", BIT, doc="the row's sums begin with this term"),
            Field("last", BIT, doc="they are complete with it"),
        )
        return described(
            {
                "i": Stream(
                    "in",
                    (Field("sum", SUM, self.columns), *flags),
                    doc="Terms of a row. Waits: a term of a row that came in one of the two cycles before, unless it"
                    " is `first`; one that is `last` while `spec.sums` complete rows have not left.",
                ),
                "o": Stream(
                    "out",
                    (
                        Field("sum", TOTAL, self.drain),
                        Field("row", self.row_number),
                        Field("part", self.part_number, doc="counts from 0 up"),
                    ),
                    doc="Complete sums, rows in the order in which they came to be, a row's parts from the lowest "
                    "columns on.",
                ),
            },
            {
                "i.sum": "column 0 in the lowest bits",
                "i.row": "number of the row",
                "o.sum": "column `o_part` x drain in the lowest bits",
                "o.row": "number of the row",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Sums of each row's terms; rows leave in the order in which they are completed.

        Raises `UserError` if a row has no first term, or a sum does not fit 56 bits.
        """
        words_in, begun = inputs["i"], dict[int, Integers]()
        rows, sums = list[int](), list[Integers]()
        flags = (words_in[name][:, 0].tolist() for name in ("row", "first", "last"))
        for term, row, first, last in zip(words_in["sum"], *flags, strict=True):
            if not first and row not in begun:
                raise UserError(f"row {row} has no first term")
            total = term if first else begun[row] + term
            if total.max() > TOTAL.maximum or total.min() < TOTAL.minimum:
                raise UserError(f"row {row} has a sum beyond {TOTAL.width} bits")
            begun[row] = total
            if last:
                rows.append(row)
                sums.append(begun.pop(row))
        output = {
            "sum": np.array(sums, np.int64).reshape(-1, self.drain),
            "row": np.repeat(np.array(rows, np.int64), self.parts)[:, None],
            "part": np.tile(np.arange(self.parts), len(rows))[:, None],
        }
        return {"o": {name: column[:words] for name, column in output.items()}}

    @property
    def memory(self) -> MemoryShape:
        return MemoryShape("partial sums", self.sums, self.columns * TOTAL.width)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.memory, fifo_memory("complete sums", self.sums, self.columns * TOTAL.width + self.row_number.width)
