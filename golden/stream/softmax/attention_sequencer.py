"""`attention_sequencer`: order of attention on the shared array, from an instruction to reads, tiles, rows and writes.

A block is up to `queries` queries of one head, sentence and side. For its scores, tiles hold keys, and queries pass.
For its contexts, tiles hold values, and weights pass. A block's contexts follow the scores of the next block, so its
softmax overlaps these scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described, joined, packets_of
from ...errors import UserError
from ...fixed import Format, Integers
from ...rng.urng import BIT
from ..array.array_path import ArrayPathSpec, TileKind
from ..forward import SHIFT
from ..instruction import FIELD_BITS, Instruction, RowAddress
from ..memory.chunks import ChunkLayout, ValueAddress
from ..norms import Q11_16
from .attention_softmax import FACTOR, FRACTION, AttentionSoftmaxSpec, SoftmaxOperation
from .context_scale import ContextScaleSpec

CLIPPED = Format(32, 0, signed=False)
"""Format of an operation's number of clipped values."""


class AttentionOperation(NamedTuple):
    """Attention of all sentences of a pass; a word of `operation`.

    Parameters
    ----------
    heads, key_heads, width, causal : int
        Fields of the instruction. A head's width is a multiple of the columns, and of the lanes if heads share keys.
    queries, keys, values, destination : int
        Address of the first row of each operand and of the result in the activation memory.
    stride : int
        Addresses from a group of features to the next.
    sentences : int
        Sentences of both sides.
    factor, fraction : int
        Factor of the scores and its fraction bits, see `attention.Attention.factor`.
    query_shift, key_shift, value_shift, output_shift : int
        Fraction bits that queries and contexts lack against Q8.16, keys and values against Q6.12.
    """

    heads: int
    key_heads: int
    width: int
    causal: int
    queries: int
    keys: int
    values: int
    destination: int
    stride: int
    sentences: int
    factor: int
    fraction: int
    query_shift: int
    key_shift: int
    value_shift: int
    output_shift: int


def attention_operation(instruction: Instruction, capacity: int, sentences: int) -> AttentionOperation:
    """Operation of an instruction, for `sentences` sentences of both sides; the buffers hold `capacity` tokens."""
    places = (
        RowAddress.of(value).first * capacity
        for value in (instruction.source, instruction.second, instruction.third, instruction.destination)
    )
    shifts = instruction.source_shift, instruction.second_shift, instruction.third_shift, instruction.result_shift
    heads = instruction.heads, instruction.key_heads, instruction.width, instruction.causal
    factor = instruction.factor, instruction.factor_fraction
    return AttentionOperation._make((*heads, *places, capacity, sentences, *factor, *shifts))


class Block(NamedTuple):
    """Block of queries: first feature groups of its head and key head, first rows of its queries and sentence."""

    query_group: int
    key_group: int
    query_row: int
    key_row: int
    softmax: SoftmaxOperation


class Sentence(NamedTuple):
    """A sentence's rows of one side; a word of `sentences`."""

    first: int
    length: int


FIELD_MEANINGS = {
    "operation.heads": "heads of queries",
    "operation.key_heads": "heads of keys",
    "operation.width": "features of a head",
    "operation.causal": "attention is causal",
    "operation.queries": "address of the first row of queries",
    "operation.keys": "address of the first row of keys",
    "operation.values": "address of the first row of values",
    "operation.destination": "address of the first row of contexts",
    "keys_read.address": "row of keys or values",
    "rows_read.address": "row of queries",
    "scales.tag": "where its contexts are written",
    "done.clipped": "scores and contexts that were clipped",
}
"""Meanings of fields, by port and field."""


@dataclass(frozen=True, kw_only=True)
class AttentionSequencerSpec(Spec):
    """Parameters and model of `attention_sequencer`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile, and values of a row: a power of two from 8 to 64.
    columns : int
        Outputs of a tile: a power of two, at most `lanes`.
    exponentials : int
        Sums and contexts per word: a power of two, less than `lanes`, that divides `columns`.
    queries : int
        Maximum number of queries of a block: a power of two from 2 to half of `sums`.
    keys : int
        Maximum number of tokens of a sentence: a power of two to 1,024, at least `lanes` and two groups of `columns`.
    rows : int
        Rows of the activation memory, 2 to 2^20.
    wide_rows : int
        Rows of the wide memory, for the width of an address, 2 to 2^20.
    sums : int
        Rows of both sides, and of partial sums: a power of two to 4,096, at least two blocks of queries.
    """

    name: ClassVar[str] = "attention_sequencer"
    summary: ClassVar[str] = "order of attention: reads of queries, keys and values, the softmax's blocks, and writes"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"lanes": 16, "columns": 4, "queries": 8, "keys": 32, "rows": 1024, "wide_rows": 256, "sums": 32}
    }

    lanes: int = 32
    columns: int = 16
    exponentials: int = 4
    queries: int = 64
    keys: int = 256
    rows: int = 12_288
    wide_rows: int = 4_096
    sums: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.layout, self.array, self.softmax, self.scale

    @cached_property
    def layout(self) -> ChunkLayout:
        return ChunkLayout(self.lanes, self.columns, self.rows, self.wide_rows)

    @cached_property
    def array(self) -> ArrayPathSpec:
        return ArrayPathSpec(
            lanes=self.lanes, columns=self.columns, sums=self.sums, drain=self.exponentials, queries=self.queries
        )

    @cached_property
    def softmax(self) -> AttentionSoftmaxSpec:
        return AttentionSoftmaxSpec(
            columns=self.columns,
            lanes=self.lanes,
            exponentials=self.exponentials,
            queries=self.queries,
            keys=self.keys,
        )

    @cached_property
    def scale(self) -> ContextScaleSpec:
        """Divider of the contexts; its tag is `tag`."""
        tag = self.layout.address.width + self.layout.part.width + 1
        return ContextScaleSpec(lanes=self.exponentials, queries=self.queries, keys=self.keys, tag=tag)

    def streams(self) -> dict[str, Stream]:
        """Streams, longer than most: 12 ports, to the memory, the array, the softmax and the division."""
        address, part = Field("address", self.layout.address), Field("part", self.layout.part)
        softmax, scale = self.softmax.streams(), self.scale.streams()
        count = Format.up_to(self.sums)
        places = (Field(name, self.layout.address) for name in ("queries", "keys", "values", "destination"))
        heads = (
            Field(name, Format(FIELD_BITS[name], 0, signed=False)) for name in ("heads", "key_heads", "width", "causal")
        )
        operation = (
            *heads,
            *places,
            Field("stride", count, doc="addresses from a group of features to the next: tokens that the buffers hold"),
            Field("sentences", count, doc="sentences of both sides"),
            Field("factor", FACTOR, doc="as `attention_softmax` has it"),
            Field("fraction", FRACTION),
            *(Field(f"{name}_shift", SHIFT) for name in ("query", "key", "value", "output")),
        )
        row = self.array.row_fields[0].format
        return described(
            {
                "operation": Stream("in", operation, doc="Attention of all sentences of a pass."),
                "sentences": Stream(
                    "in",
                    (Field("first", row, doc="row of the first token"), Field("length", count, doc="tokens")),
                    doc="Rows of the sentences of both sides, for each operation anew.",
                ),
                "inverse": Stream(
                    "in",
                    softmax["inverse"].fields,
                    doc="From `attention_softmax`: passes to `reciprocals`, and `clipped` is counted.",
                ),
                "contexts": Stream("in", scale["o"].fields, doc="From `context_scale`."),
                "keys_read": Stream(
                    "out",
                    (
                        address,
                        Field("turn", BIT),
                        part,
                        Field("zero", BIT, self.layout.parts, doc="parts that count as zeros"),
                    ),
                    doc="Rows of keys and values, and what `stationary_load` makes of them.",
                ),
                "rows_read": Stream(
                    "out", (address, *self.array.row_fields), doc="Rows of queries, and what the array makes of them."
                ),
                "order": Stream(
                    "out", self.array.order_fields, doc="For each tile of which kind it is, and how many rows pass."
                ),
                "softmax": Stream("out", softmax["operation"].fields, doc="Operations of `attention_softmax`."),
                "reciprocals": Stream(
                    "out", scale["inverse"].fields, doc="For `context_scale`, in the same cycle as `inverse`."
                ),
                "scales": Stream(
                    "out", scale["i"].fields[1:], doc="What goes with each word of sums of contexts to `context_scale`."
                ),
                "write": Stream(
                    "out",
                    (
                        Field("wide", BIT),
                        address,
                        part,
                        Field("value", Q11_16, self.columns),
                    ),
                    doc="Chunks of `columns` contexts, to the memory of activations.",
                ),
                "done": Stream("out", (Field("clipped", CLIPPED),), doc="Behind the last write of an operation."),
            },
            FIELD_MEANINGS,
        )

    def tag(self, address: Integers, part: int, final: Integers) -> Integers:
        """Tag of contexts: address, part, and flag of the operation's last word."""
        bits = self.layout.address.width
        tag: Integers = address | part << bits | final << bits + self.layout.part.width
        return tag

    # -- blocks --------------------------------------------------------------------------------------------------------

    def operations(self, inputs: dict[str, Words]) -> list[tuple[AttentionOperation, list[Block]]]:
        """Operations and their blocks, from the words of `operation` and `sentences`.

        Raises `UserError` if heads, widths or lengths do not fit the block.
        """
        columns, start, operations = inputs["operation"], 0, []
        rows = inputs["sentences"]
        sentences = [Sentence(*pair) for pair in np.hstack([rows["first"], rows["length"]]).tolist()]
        for values in zip(*(columns[name][:, 0].tolist() for name in AttentionOperation._fields), strict=True):
            op = AttentionOperation(*values)
            chosen, start = sentences[start : start + op.sentences], start + op.sentences
            operations.append((op, list(self.blocks(op, chosen))))
        return operations

    def blocks(self, op: AttentionOperation, sentences: list[Sentence]) -> Iterator[Block]:
        """Blocks of queries, ordered by sentence, head, and position in the sentence."""
        if not op.key_heads or op.heads % op.key_heads or not op.heads:
            raise UserError(f"{op.heads} heads of queries for {op.key_heads} of keys")
        size = self.columns if op.heads == op.key_heads else self.lanes
        if not op.width or op.width % size:
            raise UserError(f"heads of {op.width} features, which are not a multiple of {size}")
        shared, groups = op.heads // op.key_heads, op.width // self.columns
        for first, length in sentences:
            if not 1 <= length <= self.keys:
                raise UserError(f"a sentence of {length} tokens: one has 1 to {self.keys}")
            for head in range(op.heads):
                for begin in range(0, length, self.queries):
                    queries = min(length - begin, self.queries)
                    softmax = SoftmaxOperation(
                        queries=queries,
                        keys=begin + queries if op.causal else length,
                        first=begin if op.causal else 0,
                        causal=bool(op.causal),
                        factor=(op.factor, op.fraction),
                        shifts=(op.query_shift, op.key_shift),
                        repeats=groups,
                    )
                    yield Block(head * groups, head // shared * groups, first + begin, first, softmax)

    # -- streams -------------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Commands of each operation, and writes of its contexts."""
        outputs_of, blocks, start = [], 0, 0
        ends = packets_of(inputs["inverse"]["last"])
        for op, op_blocks in self.operations(inputs):
            commands = self.commands(op, op_blocks)
            inverse = slice(ends[blocks][0], ends[blocks + len(op_blocks) - 1][1])
            contexts = slice(start, start + len(commands["scales"]["tag"]))
            blocks, start = blocks + len(op_blocks), contexts.stop
            words_in = {name: column[contexts] for name, column in inputs["contexts"].items()}
            reciprocals = {name: column[inverse] for name, column in inputs["inverse"].items()}
            clipped = reciprocals.pop("clipped").sum() + words_in["clipped"].sum()
            written = {"write": self._write(words_in), "done": {"clipped": np.array([[clipped]])}}
            outputs_of.append(commands | {"reciprocals": reciprocals} | written)
        outputs = joined(outputs_of)
        return {name: {key: column[:words] for key, column in fields.items()} for name, fields in outputs.items()}

    def commands(self, op: AttentionOperation, blocks: list[Block]) -> dict[str, Words]:
        """Commands of an operation; the contexts of a block follow the scores of the next."""
        parts = [self._scores(op, blocks[0])]
        for before, block in pairwise(blocks):
            parts += [self._scores(op, block), self._contexts(op, before, final=False)]
        parts.append(self._contexts(op, blocks[-1], final=True))
        names = ("keys_read", "rows_read", "order", "softmax", "scales")
        return {name: _joined([part[name] for part in parts if name in part]) for name in names}

    def _scores(self, op: AttentionOperation, block: Block) -> dict[str, Words]:
        """Commands of a block's scores: for each group of keys, each memory row of the head."""
        softmax, groups = block.softmax, block.softmax.repeats
        parts = self.layout.parts
        begin, end = block.key_group, block.key_group + groups
        count = (end - 1) // parts - begin // parts + 1
        keys, rows, order = list[Words](), list[Words](), list[Words]()
        for tile in softmax.tiles(self.columns):
            key = np.minimum(tile.key + np.arange(self.columns), softmax.keys - 1)
            query = np.arange(tile.query, softmax.queries)
            for line in range(count):
                of_parts = (begin // parts + line) * parts + np.arange(parts)
                zero = (of_parts < begin) | (of_parts >= end)
                group = block.key_group + line * parts
                keys.append(self._loads(op, op.keys, group, block.key_row + key, turn=1, part=0, zero=zero))
                group = block.query_group + line * parts
                address = self.layout.chunk(ValueAddress(False, op.queries), group, block.query_row, op.stride).address
                first, last = (np.full(query.shape, line == edge) for edge in (0, count - 1))
                rows.append(_words(address=address + query, row=query, first=first, last=last))
                order.append(_words(kind=[TileKind.SCORES], rows=[len(query)]))
        operation = {
            "queries": softmax.queries,
            "keys": softmax.keys,
            "first": softmax.first,
            "causal": softmax.causal,
            "factor": op.factor,
            "fraction": op.fraction,
            "query_shift": op.query_shift,
            "key_shift": op.key_shift,
            "repeats": groups,
        }
        lists = {"keys_read": keys, "rows_read": rows, "order": order}
        return {name: _joined(parts) for name, parts in lists.items()} | {
            "softmax": _words(**{name: [value] for name, value in operation.items()})
        }

    def _contexts(self, op: AttentionOperation, block: Block, final: bool) -> dict[str, Words]:
        """Commands of a block's contexts: for each group of the head's features, each tile of values."""
        softmax, words = block.softmax, self.columns // self.exponentials
        keys, order, scales = list[Words](), list[Words](), list[Words]()
        for group in range(softmax.repeats):
            for tile in softmax.tiles(self.lanes):
                key = np.minimum(tile.key + np.arange(self.lanes), softmax.keys - 1)
                value_group = block.key_group + group
                part = value_group % self.layout.parts
                keys.append(self._loads(op, op.values, value_group, block.key_row + key, turn=0, part=part, zero=0))
                order.append(_words(kind=[TileKind.CONTEXTS], rows=[softmax.queries - tile.query]))
            query = np.repeat(np.arange(softmax.queries), words)
            place = ValueAddress(False, op.destination)
            chunk = self.layout.chunk(place, block.query_group + group, block.query_row, op.stride)
            last = (np.arange(len(query)) == len(query) - 1) & (group == softmax.repeats - 1)
            scales.append(
                _words(
                    query=query,
                    last=last,
                    value_shift=np.full(query.shape, op.value_shift),
                    output_shift=np.full(query.shape, op.output_shift),
                    tag=self.tag(chunk.address + query, chunk.part, (last & final).astype(np.int64)),
                )
            )
        lists = {"keys_read": keys, "order": order, "scales": scales}
        return {name: _joined(parts) for name, parts in lists.items()}

    def _loads(
        self, op: AttentionOperation, base: int, group: int, rows: Integers, turn: int, part: int, zero: Any
    ) -> Words:
        """Reads of a tile's rows; reads beyond the last key repeat that key, as the mask hides the padding."""
        address = self.layout.chunk(ValueAddress(False, base), group, 0, op.stride).address + rows
        flags = {"turn": turn, "part": part}
        return {
            **_words(address=address, **{name: np.full(rows.shape, value) for name, value in flags.items()}),
            "zero": np.broadcast_to(np.asarray(zero, np.int64), (len(rows), self.layout.parts)),
        }

    def _write(self, contexts: Words) -> Words:
        words, bits = self.columns // self.exponentials, self.layout.address.width
        tag = contexts["tag"][::words]
        return {
            "wide": np.zeros_like(tag),
            "address": tag & ((1 << bits) - 1),
            "part": tag >> bits & ((1 << self.layout.part.width) - 1),
            "value": contexts["value"].reshape(-1, self.columns),
        }


def _words(**columns: Any) -> Words:
    return {name: np.asarray(column, np.int64).reshape(-1, 1) for name, column in columns.items()}


def _joined(parts: list[Words]) -> Words:
    return joined([{"": part} for part in parts])[""]
