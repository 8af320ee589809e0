"""Common parameters and streams of the blocks for chunks of the activation memory and for sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...block import Field, Spec, Stream, Words
from ...errors import UserError, check_power
from ...fixed import Format, Integers
from ...rng.urng import BIT
from ..instruction import RowAddress
from ..memory.chunks import Chunk, ChunkLayout, ValueAddress
from ..norms import Q11_16

COUNT = Format(32, 0, signed=False)
"""Format of a count of clipped values."""
FEATURES = Format(24, 0, signed=False)
"""Format of a number of features, as in an instruction."""


@dataclass(frozen=True, kw_only=True)
class ChunkUnitSpec(Spec):
    """Parameters of a block for chunks and sentences.

    Parameters
    ----------
    lanes : int
        Values of a row of the narrow memory, a power of two from 4 to 64.
    columns : int
        Values of a chunk and of a row of the wide memory: a power of two from 4 (the values of a word) to `lanes`.
    rows : int
        Rows of the narrow memory, 2 to 2**20.
    wide_rows : int
        Rows of the wide memory, 2 to 2**20.
    sums : int
        Maximum number of rows of both sides together, tokens or sentences: a power of two from 4 to 1,024. A sentence
        has at most half as many.
    """

    lanes: int = 32
    columns: int = 16
    rows: int = 12_288
    wide_rows: int = 4_096
    sums: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.layout
        if self.columns < 4:
            raise UserError(f"columns = {self.columns} is less than 4, the values of a word")
        check_power("sums", self.sums, 4, 1024)

    @cached_property
    def layout(self) -> ChunkLayout:
        return ChunkLayout(self.lanes, self.columns, self.rows, self.wide_rows)

    @property
    def longest(self) -> int:
        """Largest number of tokens of a sentence: half of `sums`, as the other side has as many rows."""
        return self.sums // 2

    @property
    def row(self) -> Format:
        return Format.up_to(self.sums - 1)

    @property
    def count(self) -> Format:
        return Format.up_to(self.sums)

    @property
    def chunk_fields(self) -> tuple[Field, ...]:
        return (
            Field("wide", BIT, doc="in the wide memory"),
            Field("address", self.layout.address, doc="row of that memory"),
            Field("part", self.layout.part, doc="which chunk of a narrow row"),
        )

    def place_fields(self, *names: str) -> tuple[Field, ...]:
        fields = (
            (
                Field(f"{name}_wide", BIT, doc=f"{name} is in the wide memory"),
                Field(name, self.layout.address, doc=f"address of the {name}'s first row"),
            )
            for name in names
        )
        return tuple(field for pair in fields for field in pair)

    def unit_streams(self, operation: tuple[Field, ...]) -> dict[str, Stream]:
        value = Field("value", Q11_16, self.columns)
        return {
            "operation": Stream("in", operation),
            "sentences": Stream("in", (Field("first", self.row), Field("length", self.count))),
            "operands_read": Stream("out", self.chunk_fields, doc="Chunks to read."),
            "operands": Stream("in", (value,), doc="Values of the chunks that were asked for, in order."),
            "write": Stream("out", (*self.chunk_fields, value), doc="Chunks of the results; 0 beyond the features."),
            "done": Stream(
                "out",
                (Field("clipped", COUNT, doc="values that were saturated"),),
                doc="A word behind an operation's last write.",
            ),
        }

    @staticmethod
    def place(operation: Mapping[str, int], name: str) -> ValueAddress:
        """Address of the value `name` from an operation's fields."""
        return ValueAddress(bool(operation[f"{name}_wide"]), operation[name])


def place_words(name: str, buffer: int, capacity: int) -> dict[str, int]:
    """Fields of a value's address, from an instruction's `buffer` and the memory's stride, `capacity`."""
    wide, first = RowAddress.of(buffer)
    return {f"{name}_wide": int(wide), name: first * capacity}


def chunk_words(chunks: list[Chunk]) -> Words:
    rows = np.array(chunks, np.int64).reshape(-1, 3)
    return {name: rows[:, [number]] for number, name in enumerate(Chunk._fields)}


def operations_of(words: Words) -> list[dict[str, int]]:
    count = len(next(iter(words.values())))
    return [{name: int(column[number, 0]) for name, column in words.items()} for number in range(count)]


def chunks_of(values: Integers, columns: int) -> Integers:
    """Rows of features cut into chunks, zero-padded: (rows, chunks, columns)."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % columns)))
    return padded.reshape(len(values), -1, columns)
