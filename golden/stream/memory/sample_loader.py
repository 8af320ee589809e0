"""`sample_loader`: rows of a pass's tokens from DRAM into the activation memory, for both sides.

Both sides start from the same inputs: token t goes to rows t and R + t, with R tokens per side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Words, described
from ...errors import UserError, check_power
from ...fixed import Format, Integers
from ...rng.urng import BIT
from ..norms import Q11_16
from .chunks import Chunk, ChunkLayout, ValueAddress
from .samples import ROW, token_beats, tokens_of

WORD = Format(32, 0, signed=False)
UNIT = 16
"""Smallest number of values in a group of whole beats; a group is a multiple of a chunk."""


class Status(IntEnum):
    """Result of an operation; without LOADED the loader takes no beat and writes nothing."""

    LOADED = 0
    EMPTY = 1
    CAPACITY = 2


STATUS = Format.up_to(max(Status))


@dataclass(frozen=True, kw_only=True)
class SampleLoaderSpec(Spec):
    """Parameters and model of `sample_loader`.

    Parameters
    ----------
    lanes : int
        Values of a row of the narrow memory: a power of two from 4 to 64.
    columns : int
        Values of a chunk: a power of two, at most `lanes` and at most the 32 values of a sample's row.
    rows : int
        Rows of the narrow memory, 2 to 1,048,576.
    wide_rows : int
        Rows of the wide memory, 2 to 1,048,576.
    sums : int
        Maximum number of rows of both sides together: a power of two from 4 to 1,024.
    """

    name: ClassVar[str] = "sample_loader"
    summary: ClassVar[str] = "tokens of a pass from beats of DRAM to chunks of both sides"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"lanes": 16, "columns": 4, "rows": 1024, "wide_rows": 512, "sums": 32},
    }

    lanes: int = 32
    columns: int = 16
    rows: int = 12_288
    wide_rows: int = 4_096
    sums: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.layout
        if self.columns > ROW:
            raise UserError(f"columns = {self.columns} is more than the {ROW} values of a sample's row")
        check_power("sums", self.sums, 4, 1024)

    @cached_property
    def layout(self) -> ChunkLayout:
        return ChunkLayout(self.lanes, self.columns, self.rows, self.wide_rows)

    @property
    def unit(self) -> int:
        return max(self.columns, UNIT)

    @property
    def latency(self) -> int:
        """Smallest number of cycles from an operation to its first beat: settings, checks, their result."""
        return 3

    @property
    def features(self) -> Format:
        """Format of a number of features: up to what either memory can hold for two sides, or a sample's row."""
        most = max(self.rows * self.lanes, self.wide_rows * self.columns) // 2
        return Format.up_to(max(most, ROW))

    def cycles(self, rows: int, features: int) -> int:
        """Cycles from an operation to its `done`, without back-pressure, for 16 columns or more."""
        padded = self.unit == UNIT and -(-features // UNIT) % 2
        return self.latency + rows * token_beats(features) + (2 if padded else 4)

    def streams(self) -> dict[str, Stream]:
        address = self.layout.address
        operation = (
            Field("rows", Format.up_to(self.sums // 2), doc="R, the tokens of a side"),
            Field(
                "features",
                self.features,
                doc="values of a token: as many bits as the memories have room for on two sides",
            ),
            Field("wide", BIT),
            Field("base", address, doc="where they go"),
            # a single token's stride may be the whole memory
            Field(
                "stride",
                Format.up_to(max(self.rows, self.wide_rows)),
                doc="tokens of both sides that the buffers hold",
            ),
        )
        chunk = (
            Field("wide", BIT),
            Field("address", address, doc="its place and its values, sign-extended to 27 bits"),
            Field("part", self.layout.part, doc="its place and its values, sign-extended to 27 bits"),
        )
        return described(
            {
                "operation": Stream(
                    "in",
                    operation,
                    doc="Tokens of a side, values of a token, and the `ValueAddress` where they go. The next one is "
                    "taken behind `done`.",
                ),
                "beats": Stream(
                    "in",
                    (Field("data", WORD, 4, doc="lowest byte in the lowest bits"),),
                    doc="Tokens one behind the other, as `samples.token_rows` has them.",
                ),
                "write": Stream(
                    "out",
                    (
                        *chunk,
                        Field("value", Q11_16, self.columns, doc="its place and its values, sign-extended to 27 bits"),
                    ),
                    doc="Chunks of each token in order, each on the plus side, then on the minus side.",
                ),
                "done": Stream(
                    "out",
                    (
                        Field(
                            "status",
                            STATUS,
                            doc="0: all is written, 1: no token or no value, 2: 2R is more than the stride or `sums`",
                        ),
                    ),
                    doc="All is written; or why nothing is, a `Status`.",
                ),
            },
            {
                "operation.wide": "where they go",
                "write.wide": "its place and its values, sign-extended to 27 bits",
            },
        )

    def status(self, rows: int, features: int, stride: int) -> Status:
        if not (rows and features):
            return Status.EMPTY
        return Status.CAPACITY if 2 * rows > min(stride, self.sums) else Status.LOADED

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Process operations until the beats run out."""
        data = np.ascontiguousarray(inputs["beats"]["data"], "<u4").view(np.uint8)
        operations, chunks, values, done = inputs["operation"], list[Chunk](), list[Integers](), list[int]()
        for number in range(len(operations["rows"])):
            op = {name: int(column[number, 0]) for name, column in operations.items()}
            rows, features = op["rows"], op["features"]
            status = self.status(rows, features, op["stride"])
            if status == Status.LOADED:
                beats = rows * token_beats(features)
                if len(data) < beats:
                    break
                tokens, data = tokens_of(data[:beats].reshape(-1), features), data[beats:]
                place = ValueAddress(bool(op["wide"]), op["base"])
                for row in range(rows):
                    for group in range(-(-features // self.columns)):
                        chunk = tokens[row, group * self.columns :][: self.columns]
                        for side in range(2):
                            chunks.append(self.layout.chunk(place, group, side * rows + row, op["stride"]))
                            values.append(chunk)
            done.append(int(status))
        addresses = np.array(chunks, np.int64).reshape(-1, len(Chunk._fields))
        write = {name: addresses[:words, [index]] for index, name in enumerate(Chunk._fields)}
        write["value"] = np.array(values, np.int64).reshape(-1, self.columns)[:words]
        return {"write": write, "done": {"status": np.array(done, np.int64).reshape(-1, 1)[:words]}}
