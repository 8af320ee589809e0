"""`array_path`: multiplier array and partial sums, shared by linear layers, scores and contexts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Spec, Stream, Supply, Words, described
from ...errors import UserError
from ...fixed import Q8_16, Format
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..attention import SUM as SCORE
from ..attention import WEIGHT
from .partial_sums import PartialSumsSpec
from .tile_array import Q4_14, TileArraySpec

APART = 3
"""Cycles until `partial_sums` can take the same row again."""


class TileKind(IntEnum):
    """Operation of a tile; selects the sources of its rows and weights."""

    LINEAR = 0
    """Rows of the activation memory, weights of a linear layer."""
    SCORES = 1
    """Rows of queries, stationary keys."""
    CONTEXTS = 2
    """Rows of attention weights, stationary values."""


@dataclass(frozen=True, kw_only=True)
class ArrayPathSpec(Spec):
    """Parameters and model of `array_path`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: even, from 6 to 126. With fewer lanes the next term of a row would come while `partial_sums`
        still writes the row.
    columns : int
        Outputs of a tile, 1 to 64.
    sums : int
        Maximum number of rows of a layer with unfinished sums: a power of two from 4 to 4,096.
    drain : int
        Output sums per cycle; divides `columns`.
    queries : int
        Maximum number of queries of an attention block: a power of two from 2 to half of `sums`.
    """

    name: ClassVar[str] = "array_path"
    summary: ClassVar[str] = "array and partial sums, shared by linear layers, scores and contexts of attention"

    lanes: int = 32
    columns: int = 16
    sums: int = 256
    drain: int = 4
    queries: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.array, self.partial_sums
        if self.array.beats < APART:
            raise UserError(f"lanes = {self.lanes} are less than {2 * APART}: a row would return while it is written")
        if not 2 <= self.queries <= self.sums // 2 or self.queries & (self.queries - 1):
            raise UserError(f"queries = {self.queries} is not a power of two from 2 to half of sums = {self.sums}")

    @cached_property
    def partial_sums(self) -> PartialSumsSpec:
        return PartialSumsSpec(columns=self.columns, sums=self.sums, drain=self.drain)

    @cached_property
    def array(self) -> TileArraySpec:
        """Spec of the array; the tag holds a row's number, `first` and `last`."""
        return TileArraySpec(lanes=self.lanes, columns=self.columns, tag=self.partial_sums.row_number.width + 2)

    @property
    def latency(self) -> int:
        """Cycles from a row's last term to the first word of its sums."""
        return self.array.latency + self.partial_sums.latency

    @property
    def query_number(self) -> Format:
        return Format.up_to(self.queries - 1)

    @property
    def row_fields(self) -> tuple[Field, ...]:
        """Fields of a row except its values; the activation memory returns them as the tag of the read."""
        return Field("row", self.partial_sums.row_number), Field("first", BIT), Field("last", BIT)

    @property
    def order_fields(self) -> tuple[Field, ...]:
        return Field("kind", Format(2, 0, signed=False), doc="0 a layer's, 1 scores, 2 contexts"), Field(
            "rows", Format.up_to(self.sums), doc="rows that pass it, at least 1"
        )

    @property
    def used_field(self) -> Field:
        """Field with the number of a tile's used lanes; the other lanes count as 0."""
        return Field(
            "used",
            Format.up_to(self.lanes),
            doc="lanes of its rows that count, at least 1; the others are taken as 0",
        )

    def streams(self) -> dict[str, Stream]:
        sums = self.partial_sums.streams()["o"].fields
        terms = (Field("weight", WEIGHT, self.lanes), Field("query", self.query_number))
        weight = Field("weight", Q4_14, 2 * self.columns)
        contexts = (Field("sum", SCORE, self.drain), Field("query", self.query_number), sums[-1])
        return described(
            {
                "order": Stream(
                    "in",
                    (*self.order_fields, self.used_field),
                    doc="A word for each tile: `TileKind`, how many rows pass, and how many of their lanes count, "
                    "both at least 1. A tile of a layer behind one of attention, or the other way round, waits "
                    "until all sums have left.",
                ),
                "rows": Stream(
                    "in",
                    (Field("value", Q8_16, self.lanes), *self.row_fields),
                    doc="Rows of a layer and queries. Of queries `row` is the number in the block. A row that is not"
                    " `first` comes at least as many rows behind the one of its number as its tile has.",
                ),
                "terms": Stream(
                    "in",
                    (*terms, Field("first", BIT), Field("last", BIT)),
                    doc="Rows of attention's weights, in the same order.",
                ),
                "weights": Stream("in", (weight,), doc="Beats of a layer's tiles, and of those of keys and values."),
                "keys": Stream("in", (weight,), doc="Beats of a layer's tiles, and of those of keys and values."),
                "sums": Stream("out", sums, doc="Complete sums of layers."),
                "scores": Stream(
                    "out",
                    (Field("score", SCORE, self.drain, doc="complete sums of queries and keys"),),
                    doc="Those of queries and keys.",
                ),
                "contexts": Stream("out", contexts, doc="Those of weights and values."),
            },
            {
                "rows.row": "number of the row, or of the query in its block",
                "rows.first": "the row's sums begin",
                "rows.last": "the row's sums are complete",
                "weights.weight": "beats of a layer's tiles; of keys and values",
                "keys.weight": "beats of a layer's tiles; of keys and values",
                "sums.sum": "complete sums of a layer",
                "sums.row": "complete sums of a layer",
                "contexts.sum": "those of weights and values",
                "contexts.query": "those of weights and values",
            },
        )

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.partial_sums.memories

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Process tiles until the rows or the weights of an input run out.

        Raises `UserError` if a tile's kind, rows or used lanes are out of range, or if a row returns within fewer rows
        than its tile.
        """
        supply, passed = Supply(inputs), list[tuple[TileKind, Words]]()
        terms: dict[TileKind, list[Words]] = {kind: [] for kind in TileKind}
        order = (inputs["order"][name][:, 0].tolist() for name in ("kind", "rows", "used"))
        for number, rows, used_lanes in zip(*order, strict=True):
            if number not in list(TileKind) or not 1 <= rows <= self.sums or not 1 <= used_lanes <= self.lanes:
                raise UserError(f"a tile of kind {number} with {rows} rows of {used_lanes} lanes")
            kind = TileKind(number)
            terms_from = "terms" if kind == TileKind.CONTEXTS else "rows"
            tile_from = "weights" if kind == TileKind.LINEAR else "keys"
            taken = supply.take({terms_from: rows, tile_from: self.array.beats})
            if taken is None:
                break
            row, tile = taken[terms_from], taken[tile_from]
            passed.append((kind, row))
            terms[kind].append(self._terms(row, tile, used_lanes))
        self._check_order(passed)
        return self._outputs({kind: self._complete(parts) for kind, parts in terms.items()}, words)

    @staticmethod
    def _check_order(tiles: list[tuple[TileKind, Words]]) -> None:
        """Refuse a row that returns within fewer rows than its tile."""
        position, before = 0, dict[tuple[bool, int], int]()
        for kind, rows in tiles:
            numbers, count = rows["row"] if "row" in rows else rows["query"], len(rows["first"])
            for number, first in np.hstack([numbers, rows["first"]]).tolist():
                key = kind == TileKind.CONTEXTS, number
                if not first and position - before.get(key, position - count) < count:
                    raise UserError(
                        f"row {number} of a tile of {count} rows comes {position - before[key]} behind itself"
                    )
                before[key], position = position, position + 1

    def _terms(self, rows: Words, tile: Words, used: int) -> Words:
        swap = (np.arange(len(rows["first"])) == 0)[:, None].astype(np.int64)
        values = (rows["value"] if "value" in rows else rows["weight"]) * (np.arange(self.lanes) < used)
        array = TileArraySpec(lanes=self.lanes, columns=self.columns)
        terms = array.run({"w": tile, "x": {"value": values, "swap": swap}}, len(values))["o"]
        number = rows["row"] if "row" in rows else rows["query"]
        return terms | {"row": number, "first": rows["first"], "last": rows["last"]}

    def _complete(self, parts: list[Words]) -> Words:
        names = ("sum", "row", "first", "last")
        empty = {name: np.zeros((0, self.columns if name == "sum" else 1), np.int64) for name in names}
        terms = {name: np.concatenate([part[name] for part in [empty, *parts]]) for name in names}
        return self.partial_sums.run({"i": terms}, len(terms["row"]) * self.partial_sums.parts)["o"]

    @staticmethod
    def _outputs(complete: dict[TileKind, Words], words: int) -> dict[str, Words]:
        contexts = complete[TileKind.CONTEXTS]
        outputs = {
            "sums": complete[TileKind.LINEAR],
            "scores": {"score": complete[TileKind.SCORES]["sum"]},
            "contexts": {"sum": contexts["sum"], "query": contexts["row"], "part": contexts["part"]},
        }
        return {port: {name: column[:words] for name, column in fields.items()} for port, fields in outputs.items()}
