"""`rotary`: rotary positions of queries and keys, applied in place in the activation memory.

For the arithmetic see `attention.rotated`. The table of rotations arrives only once, a row per position. So the loops
go over positions, then tokens at the position, then heads: first of queries, then of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...block import Field, Stream, Supply, Words, described
from ...errors import check_power
from ...fixed import Q8_16, Format, Integers, Narrower, Overflow, narrow
from ...memories.plan import MemoryShape
from ..attention import HALVES, MOST_WIDTH, Q6_12, ROTATION, rotated
from ..instruction import FIELD_BITS, Instruction, RowAddress
from ..memory.chunks import Chunk, ValueAddress
from .chunk_unit import ChunkUnitSpec, chunk_words, chunks_of, operations_of

TURN_LANES = 4
"""Values a cycle: cosines or sines from the table, and results."""
assert HALVES == 2 * TURN_LANES
LEAST_COLUMNS = 16
"""Smallest chunk with reads and writes faster than the rotation, and a pause a token."""


@dataclass(frozen=True, kw_only=True)
class RotarySpec(ChunkUnitSpec):
    """Parameters and model of `rotary`, see `ChunkUnitSpec`.

    Parameters
    ----------
    width : int
        Maximum number of features of a head: a power of two, at least 8 and `columns`, at most 1,024.
    """

    name: ClassVar[str] = "rotary"
    summary: ClassVar[str] = "rotary positions: queries and keys turned in the memory by their tokens' positions"

    width: int = MOST_WIDTH

    def __post_init__(self) -> None:
        super().__post_init__()
        least = max(HALVES, self.columns)
        check_power("width", self.width, least, 1024)

    @property
    def chunks(self) -> int:
        return self.width // self.columns

    @property
    def latency(self) -> int:
        """Cycles from the read of a buffer's word to the write of its result: 5, and rounding 4."""
        return 9

    def cycles(self, operation: dict[str, int], tokens: int) -> int:
        """Cycles from an idle block's operation to its `done`, without back-pressure, for equally long sentences.

        The chunks have at least `LEAST_COLUMNS` values. `tokens` counts the tokens of all sentences; a token takes a
        cycle for `TURN_LANES` values. Each position adds a head's chunks twice: for the read of the first head and the
        write of the last.
        """
        words, heads = operation["width"] // TURN_LANES, operation["heads"] + operation["key_heads"]
        drain = 2 * operation["width"] // self.columns + self.latency + 5
        return 3 + words + operation["longest"] * drain + tokens * heads * words

    def streams(self) -> dict[str, Stream]:
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
        """Operations whose sentences, rotations and operands are complete."""
        turns = narrow(inputs["turns"]["plus"], ROTATION, ROTATION, overflow=Overflow.WRAP)
        operands = narrow(inputs["operands"]["value"], Q8_16, Q8_16, overflow=Overflow.WRAP)
        places, values, clipped = list[Chunk](), [np.zeros((0, self.columns), np.int64)], list[int]()
        supply = Supply(inputs | {"turns": {"plus": turns}, "operands": {"value": operands}})
        for op in operations_of(inputs["operation"]):
            each, counted = op["width"] // TURN_LANES, Narrower()
            sentences = supply.left("sentences", op["longest"] * op["sentences"])
            firsts, lengths = (sentences[name][:, 0].tolist() for name in ("first", "length"))
            positions = [number // op["sentences"] for number in range(len(firsts))]
            tokens = [(p, first + p) for p, first, length in zip(positions, firsts, lengths, strict=True) if length > p]
            chunks = (op["heads"] + op["key_heads"]) * op["width"] // self.columns
            counts = {"sentences": op["longest"] * op["sentences"], "turns": op["longest"] * each}
            taken = supply.take(counts | {"operands": len(tokens) * chunks})
            if taken is None:
                break
            table, chunk_values = taken["turns"]["plus"].reshape(op["longest"], 2, -1), taken["operands"]["value"]
            for number, (position, row) in enumerate(tokens):
                places += self._places(op, row)
                values += self._turned(
                    op, chunk_values[number * chunks : (number + 1) * chunks], table[position], counted
                )
            clipped.append(counted.saturations)
        outputs = {
            "operands_read": chunk_words(places),
            "write": chunk_words(places) | {"value": np.concatenate(values)},
            "done": {"clipped": np.array(clipped, np.int64).reshape(-1, 1)},
        }
        return {name: {key: column[:words] for key, column in columns.items()} for name, columns in outputs.items()}

    def _places(self, op: dict[str, int], row: int) -> list[Chunk]:
        return [
            self.layout.chunk(ValueAddress(False, op[name]), group, row, op["stride"])
            for name, heads in (("queries", "heads"), ("keys", "key_heads"))
            for group in range(op[heads] * op["width"] // self.columns)
        ]

    def _turned(self, op: dict[str, int], chunks: Integers, turns: Integers, counted: Narrower) -> list[Integers]:
        values = chunks.reshape(-1, op["width"])
        parts = zip(np.split(values, [op["heads"]]), (Q8_16, Q6_12), strict=True)
        return [
            chunks_of(rotated(heads, (turns[0], turns[1]), form, counted), self.columns).reshape(-1, self.columns)
            for heads, form in parts
        ]

    @property
    def ring(self) -> int:
        """Chunks of the buffer on each side of the multipliers: two heads of the maximum width, at least 8 chunks."""
        return max(2 * self.chunks, 8)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Input and output chunks, a memory for each word of a chunk, and two rows of cosines and of sines."""
        words, depth = self.columns // TURN_LANES, 2 * self.width // HALVES
        return (
            MemoryShape("chunks", self.ring, TURN_LANES * Q8_16.width, count=2 * words, lut_rows=self.ring),
            MemoryShape("turns", depth, TURN_LANES * ROTATION.width, count=2, lut_rows=depth),
        )


def rotary_operation(instruction: Instruction, capacity: int, longest: int, sentences: int) -> dict[str, int]:
    """Fields of the operation that precedes an attention with rotary positions.

    The buffers hold `capacity` tokens of all sides; `sentences` are of both sides, the longest has `longest` tokens.
    """
    heads = {name: getattr(instruction, name) for name in ("heads", "key_heads", "width")}
    places = {
        name: RowAddress.of(value).first * capacity
        for name, value in (("queries", instruction.source), ("keys", instruction.second))
    }
    return heads | {"longest": longest, "sentences": sentences, "stride": capacity} | places
