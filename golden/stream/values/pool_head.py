"""`pool_head`: first, last or mean token of each sentence, and rows divided by their L2 norm, in the activation memory.

For the arithmetic see `fixed.divided` and `norms.unit_rows`. Pooled rows may overwrite the rows of their tokens: a
chunk of a sentence is written after all of its tokens are read, at addresses before the remaining reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...fixed import Q8_16, Format, Integers, Narrower, divided
from ...memories.plan import MemoryShape
from ..functions import INVERSE, ROOT_TABLES
from ..instruction import POOLS, Instruction, Kind
from ..memory.chunks import Chunk
from ..norms import Q11_16, unit_rows
from ..pwl_memory import FunctionMemory
from .chunk_unit import FEATURES, ChunkUnitSpec, chunk_words, chunks_of, operations_of, place_words

KINDS = (*POOLS, "unit")
"""Operations by number: a pool, or the division by the L2 norm."""
KIND = Format(2, 0, signed=False)
UNIT_LANES = 4
"""Values a cycle of a row divided by its norm."""
PASSES = 3
"""Reads of a row divided by its norm: for its largest value, its squares, and the results."""
NEAR_OCTAVE = 16
"""Octave of a row's largest value before its squares are summed, as in `unit_rows`."""
AVERAGE_CYCLES = Q11_16.width + 2
"""Cycles to divide all sums of a chunk: a cycle per bit, comparison of the remainder, rounding."""


@dataclass(frozen=True, kw_only=True)
class PoolHeadSpec(ChunkUnitSpec):
    name: ClassVar[str] = "pool_head"
    summary: ClassVar[str] = "first, last or mean token of each sentence, and rows divided by their L2 norm"

    @cached_property
    def table(self) -> FunctionMemory:
        return FunctionMemory(ROOT_TABLES)

    @property
    def features(self) -> int:
        """Largest number of features of a row in the memories, for two sides."""
        return max(self.rows * self.lanes, self.wide_rows * self.columns) // 2

    @property
    def squares(self) -> int:
        """Bits of a sum of squares: a shifted value is at most ``2**(NEAR_OCTAVE + 1)``."""
        return 2 * (NEAR_OCTAVE + 1) + 1 + (self.features - 1).bit_length()

    @property
    def drops(self) -> range:
        """For each octave of the sum of squares, the bits to round off a value's product with the inverse norm."""
        first = INVERSE.fraction - Q8_16.fraction
        return range(first + NEAR_OCTAVE, first + (self.squares - 1) // 2 + 1)

    @property
    def pass_latency(self) -> int:
        """Cycles from a pass's last word to the start of the next pass.

        Shift with rounding 6, operands and product 2, rounding; sums 3, leading one, table and register 6.
        """
        rounding = -(-(len(self.drops) - 1).bit_length() // 2) + 3
        return 6 + 2 + rounding + 3 + self.squares.bit_length() + 6

    @property
    def unit_chunks(self) -> int:
        """Largest number of result chunks in flight: the chunks that arrive before the first is written."""
        latency = 6 + 2 + -(-(len(self.drops) - 1).bit_length() // 2) + 3
        return 1 << (3 + latency * UNIT_LANES // self.columns).bit_length()

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from an idle block's first operation to the last word, without back-pressure.

        A sentence's chunk takes one cycle per token and three more, and for a mean `AVERAGE_CYCLES` more. Each pass of
        a row takes a cycle per word, and its latency.
        """
        total, sentence = 0, 0
        for op in operations_of(inputs["operation"]):
            groups, kind = -(-op["features"] // self.columns), KINDS[op["kind"]]
            if kind == "unit":
                words = groups * self.columns // UNIT_LANES
                total += 2 + op["rows"] * PASSES * (4 + words + self.pass_latency)
                continue
            items = groups * op["rows"]
            read = int(inputs["sentences"]["length"][sentence : sentence + items].sum()) if kind == "mean" else items
            total += 3 + 3 * items + read + (kind == "mean") * items * AVERAGE_CYCLES
            sentence += items
        return total

    def streams(self) -> dict[str, Stream]:
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
        """Operations whose sentences and operands are complete."""
        sentences, operands = inputs["sentences"], inputs["operands"]["value"]
        progress = _Found([], [], [], 0, 0)
        done = 0
        for op in operations_of(inputs["operation"]):
            if not (self._unit if KINDS[op["kind"]] == "unit" else self._pool)(op, sentences, operands, progress):
                break
            done += 1
        values = np.array(progress.values, np.int64).reshape(-1, self.columns)
        outputs = {
            "operands_read": chunk_words(progress.reads),
            "write": chunk_words(progress.writes) | {"value": values},
            "done": {"clipped": np.zeros((done, 1), np.int64)},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in outputs.items()}

    def _pool(self, op: dict[str, int], sentences: Words, operands: Integers, progress: _Found) -> bool:
        """Pool all sentences, one group of features after another; false if input is missing."""
        kind, layout = KINDS[op["kind"]], self.layout
        source, destination = self.place(op, "source"), self.place(op, "destination")
        used = self._there(op["features"])
        for group, lanes in enumerate(used):
            for row in range(op["rows"]):
                if progress.sentences == len(sentences["first"]):
                    return False
                first, length = (int(sentences[name][progress.sentences, 0]) for name in ("first", "length"))
                progress.sentences += 1
                rows = {"first": [first], "last": [first + length - 1]}.get(kind, list(range(first, first + length)))
                progress.reads += [layout.chunk(source, group, token, op["stride"]) for token in rows]
                values = operands[progress.operands : progress.operands + len(rows)] * lanes
                if len(values) < len(rows):
                    return False
                progress.operands += len(rows)
                progress.writes.append(layout.chunk(destination, group, row, op["stride"]))
                progress.values.append(divided(values.sum(axis=0), len(values)))
        return True

    def _unit(self, op: dict[str, int], sentences: Words, operands: Integers, progress: _Found) -> bool:
        """Divide all rows by their norm, three reads each; false if input is missing."""
        layout, used = self.layout, self._there(op["features"])
        source, destination = self.place(op, "source"), self.place(op, "destination")
        for row in range(op["rows"]):
            progress.reads += [layout.chunk(source, group, row, op["stride"]) for group in range(len(used))] * PASSES
            copies = operands[progress.operands : progress.operands + PASSES * len(used)]
            if len(copies) < PASSES * len(used):
                return False
            progress.operands += len(copies)
            values = copies[: len(used)] * used
            progress.writes += [layout.chunk(destination, group, row, op["stride"]) for group in range(len(used))]
            progress.values += list(unit_rows(values.reshape(1, -1), Narrower()).reshape(-1, self.columns))
        return True

    def _there(self, features: int) -> Integers:
        used: Integers = chunks_of(np.ones((1, features), np.int64), self.columns)[0]
        return used

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.table.memories("inverse norms of rows", 1)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return {"table": (self.table.contents, self.table.width)}


@dataclass
class _Found:
    """Reads and writes of operations, and numbers of consumed words of sentences and operands."""

    reads: list[Chunk]
    writes: list[Chunk]
    values: list[Integers]
    sentences: int
    operands: int


def pool_operation(instruction: Instruction, capacity: int, rows: int) -> dict[str, int]:
    """Fields of the operation of a POOL or UNIT instruction; `rows` counts the written rows of both sides."""
    kind = KINDS.index("unit") if instruction.kind == Kind.UNIT else instruction.pool
    places = place_words("source", instruction.source, capacity) | place_words(
        "destination", instruction.destination, capacity
    )
    return {"kind": kind, "features": instruction.inputs, "rows": rows, "stride": capacity} | places
