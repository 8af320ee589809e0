"""`pool_head`: a sentence's first or last token or their mean, and rows divided by their L2 norm, in the memory.

The arithmetic is `average` and `norms.unit_rows`. Pooled rows may be written over the rows of tokens that they come
from: a chunk of a sentence is written once all of its tokens were read, and in front of what is read later.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...fixed import Q8_16, Format, Integers, Narrower
from ...memories.plan import MemoryShape
from ...nn.arithmetic.forward import average
from ..functions import INVERSE, ROOT_TABLES
from ..instruction import POOLS, Instruction, Kind
from ..memory.chunks import Chunk
from ..norms import Q11_16, unit_rows
from ..pwl_memory import FunctionMemory
from .chunk_unit import FEATURES, ChunkUnitSpec, chunk_words, chunks_of, operations_of, place_words

KINDS = (*POOLS, "unit")
"""Kind of an operation, by number: a pool, or the division by the L2 norm."""
KIND = Format(2, 0, signed=False)
UNIT_LANES = 4
"""Values of a row a cycle that are divided by its norm."""
PASSES = 3
"""Times that a row is read to be divided by its norm: for its largest value, its squares, and the results."""
NEAR_OCTAVE = 16
"""Octave of a row's largest value where its squares are summed, as in `unit_rows`."""
AVERAGE_CYCLES = Q11_16.width + 2
"""Cycles in which all sums of a chunk are divided: a bit a cycle, a comparison of the rest, and a rounding."""


@dataclass(frozen=True, kw_only=True)
class PoolHeadSpec(ChunkUnitSpec):
    """Parameters and model of `pool_head`, see `ChunkUnitSpec`."""

    name: ClassVar[str] = "pool_head"
    summary: ClassVar[str] = "first, last or mean token of each sentence, and rows divided by their L2 norm"

    @cached_property
    def table(self) -> FunctionMemory:
        """Inverse square roots of a mantissa, and of twice a mantissa."""
        return FunctionMemory(ROOT_TABLES)

    @property
    def features(self) -> int:
        """Most features of a row that the memories hold for two sides."""
        return max(self.rows * self.lanes, self.wide_rows * self.columns) // 2

    @property
    def squares(self) -> int:
        """Bits of a sum of squares: a value that was shifted is at most ``2**(NEAR_OCTAVE + 1)``."""
        return 2 * (NEAR_OCTAVE + 1) + 1 + (self.features - 1).bit_length()

    @property
    def drops(self) -> range:
        """Bits of a value's product with the inverse norm that are rounded off: by the octave of the squares."""
        first = INVERSE.fraction - Q8_16.fraction
        return range(first + NEAR_OCTAVE, first + (self.squares - 1) // 2 + 1)

    @property
    def pass_latency(self) -> int:
        """Cycles from a pass's last word until the next may begin.

        Shift with rounding 6, operands and product 2, rounding; sums 3, leading one, table and register 6.
        """
        rounding = -(-(len(self.drops) - 1).bit_length() // 2) + 3
        return 6 + 2 + rounding + 3 + self.squares.bit_length() + 6

    @property
    def unit_chunks(self) -> int:
        """Chunks of results that are under way at most: as many as come until the first one is written."""
        latency = 6 + 2 + -(-(len(self.drops) - 1).bit_length() // 2) + 3
        return 1 << (3 + latency * UNIT_LANES // self.columns).bit_length()

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from an idle block's first operation to the last word, inputs valid and outputs ready.

        Of a pool a sentence's chunk takes a cycle a token and three more, and for a mean `AVERAGE_CYCLES`. Each pass of
        a row takes a cycle a word, and its latency.
        """
        total, sentence = 0, 0
        for one in operations_of(inputs["operation"]):
            groups, kind = -(-one["features"] // self.columns), KINDS[one["kind"]]
            if kind == "unit":
                words = groups * self.columns // UNIT_LANES
                total += 2 + one["rows"] * PASSES * (4 + words + self.pass_latency)
                continue
            items = groups * one["rows"]
            read = int(inputs["sentences"]["length"][sentence : sentence + items].sum()) if kind == "mean" else items
            total += 3 + 3 * items + read + (kind == "mean") * items * AVERAGE_CYCLES
            sentence += items
        return total

    def streams(self) -> dict[str, Stream]:
        """Streams: `operation`, its `sentences` and the memory's `operands` in; reads, writes and `done` out."""
        sizes = (
            Field("features", FEATURES, doc="of a row, at least 1, as many as the memories hold"),
            Field("rows", self.count, doc="rows that are written, of both sides, at least 1: of a pool the sentences"),
            Field(
                "stride", self.count, doc="addresses from a group of features to the next: tokens that the buffers hold"
            ),
        )
        fields = (Field("kind", KIND, doc="number in `KINDS`"), *sizes, *self.place_fields("source", "destination"))
        return described(
            self.unit_streams(fields),
            {
                "sentences.first": "row of the first token",
                "sentences.length": "tokens",
                "operands.value": "their values, in order",
            },
            operation="Features of a row, at least 1; rows of both sides that are written, at least 1: sentences of a "
            "pool; tokens that the buffers hold; both values' places.",
            sentences="Of a pool: row and tokens, at least 1, of each sentence of the plus side, then of the minus "
            "side, again for each chunk of the features.",
            done="A word behind an operation's last write; 0, as neither a mean nor a value divided by its norm is "
            "clipped.",
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Compute operations as long as all of their sentences and operands are there."""
        sentences, operands = inputs["sentences"], inputs["operands"]["value"]
        found = _Found([], [], [], 0, 0)
        done = 0
        for one in operations_of(inputs["operation"]):
            if not (self._unit if KINDS[one["kind"]] == "unit" else self._pool)(one, sentences, operands, found):
                break
            done += 1
        values = np.array(found.values, np.int64).reshape(-1, self.columns)
        made = {
            "operands_read": chunk_words(found.reads),
            "write": chunk_words(found.writes) | {"value": values},
            "done": {"clipped": np.zeros((done, 1), np.int64)},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in made.items()}

    def _pool(self, one: dict[str, int], sentences: Words, operands: Integers, found: _Found) -> bool:
        """Pool all sentences, group by group of features; whether there are as many."""
        kind, layout = KINDS[one["kind"]], self.layout
        source, destination = self.place(one, "source"), self.place(one, "destination")
        there = self._there(one["features"])
        for group, lanes in enumerate(there):
            for row in range(one["rows"]):
                if found.sentences == len(sentences["first"]):
                    return False
                first, length = (int(sentences[name][found.sentences, 0]) for name in ("first", "length"))
                found.sentences += 1
                rows = {"first": [first], "last": [first + length - 1]}.get(kind, list(range(first, first + length)))
                found.reads += [layout.chunk(source, group, token, one["stride"]) for token in rows]
                given = operands[found.operands : found.operands + len(rows)] * lanes
                if len(given) < len(rows):
                    return False
                found.operands += len(rows)
                found.writes.append(layout.chunk(destination, group, row, one["stride"]))
                found.values.append(average(given.sum(axis=0), len(given)))
        return True

    def _unit(self, one: dict[str, int], sentences: Words, operands: Integers, found: _Found) -> bool:
        """Divide all rows, each read three times: for its largest value, its squares and the results."""
        layout, there = self.layout, self._there(one["features"])
        source, destination = self.place(one, "source"), self.place(one, "destination")
        for row in range(one["rows"]):
            found.reads += [layout.chunk(source, group, row, one["stride"]) for group in range(len(there))] * PASSES
            given = operands[found.operands : found.operands + PASSES * len(there)]
            if len(given) < PASSES * len(there):
                return False
            found.operands += len(given)
            values = given[: len(there)] * there
            found.writes += [layout.chunk(destination, group, row, one["stride"]) for group in range(len(there))]
            found.values += list(unit_rows(values.reshape(1, -1), Narrower()).reshape(-1, self.columns))
        return True

    def _there(self, features: int) -> Integers:
        """Flags of the values of all chunks of a row: 0 beyond its features."""
        there: Integers = chunks_of(np.ones((1, features), np.int64), self.columns)[0]
        return there

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """The table."""
        return self.table.memories("inverse norms of rows", 1)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of the table."""
        return {"table": (self.table.contents, self.table.width)}


@dataclass
class _Found:
    """Reads and writes of operations, and the number of words of sentences and operands that they took."""

    reads: list[Chunk]
    writes: list[Chunk]
    values: list[Integers]
    sentences: int
    operands: int


def pool_operation(one: Instruction, capacity: int, rows: int) -> dict[str, int]:
    """Make the fields of an operation.

    Parameters
    ----------
    one : Instruction
        Of kind POOL or UNIT.
    capacity : int
        Of the program.
    rows : int
        Rows of both sides that it writes: sentences of a pool.
    """
    kind = KINDS.index("unit") if one.kind == Kind.UNIT else one.pool
    places = place_words("source", one.source, capacity) | place_words("destination", one.destination, capacity)
    return {"kind": kind, "features": one.inputs, "rows": rows, "stride": capacity} | places
