"""`rotary`: queries and keys of attention, turned by their tokens' positions where they lie in the memory.

The arithmetic is `attention.rotated`. The table of rotations comes in once, a row a position, so that positions are the
outer loop: for each one all tokens that have it, and of each token all heads of the queries, then of the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Words, described
from ...errors import UserError
from ...fixed import Q8_16, Format, Integers, Narrower, Overflow, narrow
from ...memories.plan import MemoryShape
from ..attention import HALVES, MOST_WIDTH, Q6_12, ROTATION, rotated
from ..instruction import FIELD_BITS, Buffer, Instruction
from ..memory.chunks import Chunk, Place
from .chunk_unit import ChunkUnitSpec, chunk_words, chunks_of, operations_of

TURN_LANES = 4
"""Values a cycle: cosines or sines of the table that come in, and results."""
assert HALVES == 2 * TURN_LANES
LEAST_COLUMNS = 16
"""Values of a chunk with which chunks are read and written in less time than they are turned, and a pause a token."""


@dataclass(frozen=True, kw_only=True)
class RotarySpec(ChunkUnitSpec):
    """Parameters and model of `rotary`, see `ChunkUnitSpec`.

    Parameters
    ----------
    width : int
        Most features of a head. Refused: no power of two from 8 and `columns` to 1,024.
    """

    name: ClassVar[str] = "rotary"
    summary: ClassVar[str] = "rotary positions: queries and keys turned in the memory by their tokens' positions"

    width: int = MOST_WIDTH

    def __post_init__(self) -> None:
        super().__post_init__()
        least = max(HALVES, self.columns)
        if not least <= self.width <= 1024 or self.width & (self.width - 1):
            raise UserError(f"width = {self.width} is not a power of two from {least} to 1024")

    @property
    def chunks(self) -> int:
        """Chunks of the widest head."""
        return self.width // self.columns

    @property
    def latency(self) -> int:
        """Cycles from a word that is read of a buffer to its result's word in the other: 5, and rounding 4."""
        return 9

    def cycles(self, operation: dict[str, int], tokens: int) -> int:
        """Cycles from an idle block's operation to its `done`, inputs valid and outputs ready.

        A token takes a cycle for `TURN_LANES` values. To each position a head's chunks are added twice, as its first
        head is read and its last one written while none is turned. Of chunks of `LEAST_COLUMNS` values and more:
        the next token's are there in time, then.

        Parameters
        ----------
        operation : dict of str to int
            Of sentences that are all as long as the longest.
        tokens : int
            Of all of them.
        """
        words, heads = operation["width"] // TURN_LANES, operation["heads"] + operation["key_heads"]
        drain = 2 * operation["width"] // self.columns + self.latency + 5
        return 3 + words + operation["longest"] * drain + tokens * heads * words

    def streams(self) -> dict[str, Stream]:
        """Streams: `operation`, `sentences`, the table's `turns` and `operands` in; reads, writes and `done` out."""
        sizes = (Field(name, Format(FIELD_BITS[name], 0, signed=False)) for name in ("heads", "key_heads", "width"))
        counts = (Field(name, self.count) for name in ("longest", "sentences", "stride"))
        places = (Field(name, self.layout.address) for name in ("queries", "keys"))
        streams = described(
            self.unit_streams((*sizes, *counts, *places)),
            operation="Heads of queries and of keys and features of a head, a multiple of 8 and of the columns; tokens "
            "of the longest sentence; sentences of both sides; tokens that the buffers hold; places of both values in "
            "the narrow memory.",
            sentences="Row and tokens of each sentence of the plus side, then of the minus side, again for each "
            "position.",
            operands="Values of the chunks that were asked for, in order, in the lower 24 bits.",
            write="The same chunks, turned.",
        )
        return described(
            streams
            | {
                "turns": Stream(
                    "in",
                    (
                        Field(
                            "plus",
                            Q8_16,
                            TURN_LANES,
                            doc="of each position the cosines of a head's pairs, then the sines, Q2.16 in the lower "
                            "18 bits",
                        ),
                    ),
                    doc="Of each position the cosines of a head's pairs of features, then the sines, in the lower 18"
                    " bits.",
                )
            },
            {
                "operation.heads": "heads of queries, at least 1",
                "operation.key_heads": "heads of keys, at least 1",
                "operation.width": "features of a head: a multiple of 8 and of `columns`",
                "operation.longest": "tokens of the longest sentence",
                "operation.sentences": "sentences of both sides",
                "operation.stride": "addresses from a group of features to the next: tokens that the buffers hold",
                "operation.queries": "address of the first row of queries",
                "operation.keys": "address of the first row of keys",
                "sentences.first": "row of the first token",
                "sentences.length": "tokens",
                "operands.value": "their values, in order; 24 bits count",
            },
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Compute operations as long as all of their sentences, rotations and operands are there."""
        rows = np.hstack([inputs["sentences"]["first"], inputs["sentences"]["length"]])
        turns = narrow(inputs["turns"]["plus"], ROTATION, ROTATION, overflow=Overflow.WRAP)
        operands = narrow(inputs["operands"]["value"], Q8_16, Q8_16, overflow=Overflow.WRAP)
        places, values, clipped = list[Chunk](), [np.zeros((0, self.columns), np.int64)], list[int]()
        taken = {"rows": 0, "turns": 0, "operands": 0}
        for one in operations_of(inputs["operation"]):
            count, each, counted = one["longest"] * one["sentences"], one["width"] // TURN_LANES, Narrower()
            own = rows[taken["rows"] :][:count]
            positions = np.arange(len(own)) // one["sentences"]
            tokens = [(int(p), int(first + p)) for p, (first, length) in zip(positions, own, strict=True) if length > p]
            chunks = (one["heads"] + one["key_heads"]) * one["width"] // self.columns
            table = turns[taken["turns"] :][: one["longest"] * each]
            given = operands[taken["operands"] :][: len(tokens) * chunks]
            if (len(own), len(table), len(given)) != (count, one["longest"] * each, len(tokens) * chunks):
                break
            table = table.reshape(one["longest"], 2, -1)
            for number, (position, row) in enumerate(tokens):
                places += self._places(one, row)
                values += self._turned(one, given[number * chunks : (number + 1) * chunks], table[position], counted)
            for name, part in (("rows", own), ("turns", turns[: one["longest"] * each]), ("operands", given)):
                taken[name] += len(part)
            clipped.append(counted.saturations)
        made = {
            "operands_read": chunk_words(places),
            "write": chunk_words(places) | {"value": np.concatenate(values)},
            "done": {"clipped": np.array(clipped, np.int64).reshape(-1, 1)},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in made.items()}

    def _places(self, one: dict[str, int], row: int) -> list[Chunk]:
        """Places of a token's chunks: of all heads of queries, then of keys."""
        return [
            self.layout.chunk(Place(False, one[name]), group, row, one["stride"])
            for name, heads in (("queries", "heads"), ("keys", "key_heads"))
            for group in range(one[heads] * one["width"] // self.columns)
        ]

    def _turned(self, one: dict[str, int], given: Integers, turns: Integers, counted: Narrower) -> list[Integers]:
        """Turn the heads of a token's queries and keys."""
        values = given.reshape(-1, one["width"])
        parts = zip(np.split(values, [one["heads"]]), (Q8_16, Q6_12), strict=True)
        return [
            chunks_of(rotated(heads, (turns[0], turns[1]), form, counted), self.columns).reshape(-1, self.columns)
            for heads, form in parts
        ]

    @property
    def ring(self) -> int:
        """Chunks of a buffer in front of and behind the multipliers: two of the widest heads, and as many as 8."""
        return max(2 * self.chunks, 8)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Chunks before and behind, a memory for each word of a chunk, and two rows of cosines and of sines."""
        words, depth = self.columns // TURN_LANES, 2 * self.width // HALVES
        return (
            MemoryShape("chunks", self.ring, TURN_LANES * Q8_16.width, count=2 * words, lut_rows=self.ring),
            MemoryShape("turns", depth, TURN_LANES * ROTATION.width, count=2, lut_rows=depth),
        )


def rotary_operation(one: Instruction, capacity: int, longest: int, sentences: int) -> dict[str, int]:
    """Make the fields of the operation that goes before an attention.

    Parameters
    ----------
    one : Instruction
        Of kind ATTENTION with rotary positions.
    capacity : int
        Of the program.
    longest : int
        Tokens of the longest sentence of a pass.
    sentences : int
        Of a pass and both sides.
    """
    heads = {name: getattr(one, name) for name in ("heads", "key_heads", "width")}
    places = {
        name: Buffer.of(value).first * capacity for name, value in (("queries", one.source), ("keys", one.second))
    }
    return heads | {"longest": longest, "sentences": sentences, "stride": capacity} | places
