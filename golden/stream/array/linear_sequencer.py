"""`linear_sequencer`: order in which rows of a linear layer pass the array.

Outputs form groups of `columns`. For each group every tile of inputs passes: first with all rows of the plus side,
then with all rows of the minus side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described
from ...errors import UserError
from ...fixed import Format
from ...rng.urng import BIT
from ..instruction import FIELD_BITS, Instruction, RowAddress
from ..memory.chunks import ChunkLayout, ValueAddress


class LinearOperation(NamedTuple):
    """Linear layer of all rows of a pass; a word of `operation`.

    The first input row is at address `source` of the activation memory, `rows` counts the rows of a side, and `stride`
    is the distance between the memory rows of an input row.
    """

    inputs: int
    outputs: int
    source: int
    rows: int
    stride: int


def linear_operation(instruction: Instruction, capacity: int, rows: int) -> LinearOperation:
    """Operation of an instruction, for `rows` rows of a side; the buffers hold `capacity` tokens of both sides."""
    return LinearOperation(
        instruction.inputs, instruction.outputs, RowAddress.of(instruction.source).first * capacity, rows, capacity
    )


@dataclass(frozen=True, kw_only=True)
class LinearSequencerSpec(Spec):
    """Parameters and model of `linear_sequencer`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile, a power of two.
    columns : int
        Outputs of a tile: a power of two, at most `lanes`.
    rows : int
        Rows of the narrow activation memory, 2 to 2^20.
    wide_rows : int
        Rows of the wide activation memory, 2 to 2^20.
    sums : int
        Maximum number of rows of both sides together: a power of two from 4 to 4,096.
    """

    name: ClassVar[str] = "linear_sequencer"
    summary: ClassVar[str] = "order of a linear layer's rows on the array: reads of inputs, and a word for each tile"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"lanes": 16, "columns": 4, "rows": 1024, "wide_rows": 256, "sums": 32}
    }

    lanes: int = 32
    columns: int = 16
    rows: int = 12_288
    wide_rows: int = 4_096
    sums: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.layout
        if not 4 <= self.sums <= 4096 or self.sums & (self.sums - 1):
            raise UserError(f"sums = {self.sums} rows are not a power of two from 4 to 4096")

    @cached_property
    def layout(self) -> ChunkLayout:
        return ChunkLayout(self.lanes, self.columns, self.rows, self.wide_rows)

    @property
    def row(self) -> Format:
        """Format of a row's number; rows of the minus side have the numbers after the plus side's."""
        return Format.up_to(self.sums - 1)

    @property
    def used(self) -> Format:
        return Format.up_to(self.lanes)

    def streams(self) -> dict[str, Stream]:
        count = Format.up_to(self.sums)
        features = (Field(name, Format(FIELD_BITS[name], 0, signed=False)) for name in ("inputs", "outputs"))
        address = self.layout.address
        return described(
            {
                "operation": Stream(
                    "in",
                    (
                        *features,
                        Field("source", address, doc="first row of the inputs"),
                        Field("rows", count),
                        Field("stride", count, doc="addresses from a row of inputs to the next"),
                    ),
                    doc="The next layer: features, each at least 1; address of the first row of the inputs; rows of "
                    "a side, at least 1; addresses from a row to the next. Taken when all reads of the layer "
                    "before are.",
                ),
                "rows_read": Stream(
                    "out",
                    (
                        Field("address", address),
                        Field("row", self.row, doc="number of the row; the minus side begins at `operation_rows`"),
                        Field("first", BIT, doc="the row of the layer's first tile, of its last"),
                        Field("last", BIT, doc="the row of the layer's first tile, of its last"),
                    ),
                    doc="Reads of the activation memory with their tags: the row's number, and whether its sums "
                    "begin or end.",
                ),
                "order": Stream(
                    "out",
                    (Field("rows", count), Field("used", self.used, doc="lanes that have inputs")),
                    doc="A word for each tile of each side: so many rows pass, of which so many lanes have inputs.",
                ),
            },
            {
                "operation.inputs": "features, at least 1",
                "operation.outputs": "features, at least 1",
                "operation.rows": "rows of a side, from 1 to half of `sums`",
                "order.rows": "rows that pass it",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Reads and tiles of each layer.

        Raises `UserError` if a layer has no features, no rows, or more rows than `sums`.
        """
        reads, order = list[Words](), list[tuple[int, int]]()
        columns = (inputs["operation"][name][:, 0].tolist() for name in LinearOperation._fields)
        for layer in (LinearOperation(*values) for values in zip(*columns, strict=True)):
            if not (layer.inputs and layer.outputs and 1 <= layer.rows <= self.sums // 2):
                raise UserError(f"{layer.inputs} inputs, {layer.outputs} outputs, {layer.rows} rows of a side")
            tiles, groups = -(-layer.inputs // self.lanes), -(-layer.outputs // self.columns)
            of_tile, row = (axis.reshape(-1) for axis in np.mgrid[:tiles, : 2 * layer.rows])
            lines = np.arange(tiles) * self.layout.parts
            place = ValueAddress(False, layer.source)
            begins = np.array([self.layout.chunk(place, int(line), 0, layer.stride).address for line in lines])
            group = {"address": begins[of_tile] + row, "row": row, "first": of_tile == 0, "last": of_tile == tiles - 1}
            reads.append({name: np.tile(column, groups)[:, None].astype(np.int64) for name, column in group.items()})
            used = [min(layer.inputs - tile * self.lanes, self.lanes) for tile in range(tiles) for _ in range(2)]
            order += [(layer.rows, lanes) for lanes in used] * groups
        rows_read = {name: np.concatenate([part[name] for part in reads])[:words] for name in reads[0]} if reads else {}
        words_of_tiles = np.array(order[:words], np.int64).reshape(-1, 2)
        return {"rows_read": rows_read, "order": {"rows": words_of_tiles[:, :1], "used": words_of_tiles[:, 1:]}}
