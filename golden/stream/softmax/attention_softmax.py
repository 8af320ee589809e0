"""`attention_softmax`: from a block of queries' scores to rows of weights for the array, and their sums' reciprocals.

Scores come key group by key group, as the array computes them; weights go key tile by key tile. What a causal query
does not see is in neither stream. The arithmetic is that of `attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described, joined
from ...errors import UserError
from ...fixed import Q8_16, Format, Integers, Narrower
from ...memories.plan import MemoryShape
from ...rng.urng import BIT
from ..attention import Q6_12, SUM, WEIGHT, exponents, weights
from ..forward import SHIFT
from ..functions import INVERSE, POWER_TABLE, RECIPROCAL_TABLE
from ..pwl_memory import FunctionMemory

EXPONENT = Format(5, 0, signed=False)
"""Format of a reciprocal's exponent."""
FACTOR = Format(17, 0, signed=False)
FRACTION = Format(5, 0, signed=False)
FRACTIONS = range(8, 24)
"""Fraction bits that a factor may have."""
REPEATS = Format(12, 0, signed=False)


class Tile(NamedTuple):
    """Queries of a block that see something of a tile of keys.

    Parameters
    ----------
    key : int
        First key.
    query : int
        First query; all behind it see something, too.
    """

    key: int
    query: int


@dataclass(frozen=True)
class SoftmaxOperation:
    """A block of queries of one head and sentence.

    Parameters
    ----------
    queries, keys : int
        How many; of causal attention the keys up to the last query's own.
    first : int
        Place of the first query in its sentence.
    causal : bool
        Query q of the sentence sees keys 0 to q, and not all.
    factor : (int, int)
        Of the scores, see `attention.Attention.factor`.
    shifts : (int, int)
        Fraction bits that the formats of queries and keys lack of Q8.16 and Q6.12.
    repeats : int
        How often the weights go to the array: for each group of a head's features.
    """

    queries: int
    keys: int
    first: int
    causal: bool
    factor: tuple[int, int]
    shifts: tuple[int, int]
    repeats: int

    @property
    def seen(self) -> Integers:
        """Keys that each query sees."""
        if not self.causal:
            return np.full(self.queries, self.keys)
        return self.first + 1 + np.arange(self.queries)

    def tiles(self, size: int) -> Iterator[Tile]:
        """Tiles of so many keys, in order."""
        for key in range(0, self.keys, size):
            yield Tile(key, max(0, key - self.first) if self.causal else 0)

    def pairs(self, size: int) -> int:
        """Pairs of a tile of so many keys and a query that sees something of it."""
        return sum(self.queries - tile.query for tile in self.tiles(size))


@dataclass(frozen=True, kw_only=True)
class AttentionSoftmaxSpec(Spec):
    """Parameters and model of `attention_softmax`; all are powers of two.

    Parameters
    ----------
    columns : int
        Keys of a group of scores: columns of the array. Refused: no power of two from 1 to 64; not a multiple of
        `exponentials`.
    lanes : int
        Weights of a row: lanes of the array. Refused: no power of two from 2 to 64; not more than `exponentials`.
    exponentials : int
        Scores and weights a cycle. Refused: no power of two from 1 to 16.
    queries : int
        Most queries of a block. Refused: no power of two from 2 to 1,024.
    keys : int
        Most of an operation. Refused: no power of two from 2 to 1,024; fewer than a row, or than two groups.
    """

    name: ClassVar[str] = "attention_softmax"
    summary: ClassVar[str] = "softmax of attention: exact scores in, rows of weights and reciprocals of their sums out"

    columns: int = 16
    lanes: int = 32
    exponentials: int = 4
    queries: int = 64
    keys: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low, high in (
            ("columns", 1, 64),
            ("lanes", 2, 64),
            ("exponentials", 1, 16),
            ("queries", 2, 1024),
            ("keys", 2, 1024),
        ):
            value = getattr(self, name)
            if not low <= value <= high or value.bit_count() != 1:
                raise UserError(f"{name} = {value} is not a power of two from {low} to {high}")
        if self.columns % self.exponentials or self.lanes <= self.exponentials:
            raise UserError(
                f"exponentials = {self.exponentials} does not divide columns = {self.columns}, "
                f"or is not less than lanes = {self.lanes}"
            )
        if self.keys < max(self.lanes, 2 * self.columns):
            raise UserError(
                f"keys = {self.keys} is less than lanes = {self.lanes} or than two groups of columns = {self.columns}"
            )

    @property
    def score_latency(self) -> int:
        """Cycles until a query's largest score is stored: shift 5, product 2, shift 5, mask, maximum, memory."""
        return 14 + self._levels

    @property
    def weight_latency(self) -> int:
        """Cycles from the reading of a score to its weight: memory, operand, distance, table 5, shift 6."""
        return 14

    @property
    def latency(self) -> int:
        """Cycles from the reading of a query's last score to the reciprocal: weight, mask, sum 2 or more, table 7."""
        return self.weight_latency + 9 + self._levels

    @property
    def _levels(self) -> int:
        """Levels of a tree of the scores of a cycle."""
        return (self.exponentials - 1).bit_length()

    def cycles(self, operations: list[SoftmaxOperation]) -> int:
        """Cycles from the first operation to the last output, while no stream waits.

        A phase takes a block from the one before once it has given its own away. Scores come once a bank is free.
        """
        end = bank = other = free = idle = unread = 0
        for one in operations:
            last_score = max(free, bank) + one.pairs(self.columns) * self.columns // self.exponentials
            handed = max(last_score + 1, idle)
            last_weight = max(handed, last_score + self.score_latency) + int((-(-one.seen // self.exponentials)).sum())
            given = max(last_weight + 1, unread)
            last_row = max(given, last_weight + self.weight_latency) + one.repeats * one.pairs(self.lanes)
            free, idle, unread, bank, other = handed + 1, given + 1, last_row + 1, other, last_row + 3
            end = max(end, last_row + 3, last_weight + self.latency)
        return end + 1

    def streams(self) -> dict[str, Stream]:
        """Streams: a word of `operation` for each block of queries, with `scores` in, `o` and `inverse` out."""
        operation = (
            Field("queries", _count(self.queries), doc="how many, 1 to `queries`"),
            Field("keys", _count(self.keys), doc="how many, 1 to `keys`; of causal attention `first + queries`"),
            Field("first", Format(self._key_bits, 0, signed=False)),
            Field("causal", BIT, doc="query q of the sentence sees keys 0 to q; otherwise it sees all keys"),
            Field("factor", FACTOR, doc="scale times log2(e), of an instruction"),
            Field("fraction", FRACTION, doc="its fraction bits, 8 to 23"),
            Field("query_shift", SHIFT, doc="fraction bits that queries lack of Q8.16, and keys of Q6.12"),
            Field("key_shift", SHIFT, doc="fraction bits that queries lack of Q8.16, and keys of Q6.12"),
            Field(
                "repeats", REPEATS, doc="how often the rows go out, 1 or more: once for each group of a head's features"
            ),
        )
        rows = (
            Field("weight", WEIGHT, self.lanes, doc="Q4.20, from 0 to 1; 0 where the query does not see the key"),
            Field("query", Format(self._query_bits, 0, signed=False), doc="number of the query in the block"),
            *(Field(name, BIT) for name in ("swap", "first", "last")),
        )
        inverse = (
            Field(
                "mantissa",
                INVERSE,
                doc="1 / sum of its weights is `mantissa * 2^-(17 + exponent)` of a weight's last places",
            ),
            Field(
                "exponent",
                EXPONENT,
                doc="1 / sum of its weights is `mantissa * 2^-(17 + exponent)` of a weight's last places",
            ),
            Field("last", BIT),
            Field(
                "clipped",
                _count(2 * self.queries * self.keys),
                doc="with the first query the saturations of the whole block, with others 0",
            ),
        )
        return described(
            {
                "operation": Stream(
                    "in",
                    operation,
                    doc="A block of queries; taken once the scores of the one before are there, and a bank is free.",
                ),
                "scores": Stream(
                    "in",
                    (Field("score", SUM, self.exponentials, doc="exact sums of products, lane 0 in the lowest bits"),),
                    doc="By key group, query, quarter; queries that see nothing of a group are left out.",
                ),
                "o": Stream("out", rows, doc="By repeat, key tile, query; 0 where a query does not see a key."),
                "inverse": Stream("out", inverse, doc="One for each query."),
            },
            {
                "operation.first": "place of the first query in its sentence, where attention is causal",
                "o.swap": "first row of a tile: the array changes to the next values",
                "o.first": "the query's first tile",
                "o.last": "the last tile of which the query sees something",
                "inverse.last": "the last query of the block",
            },
        )

    @property
    def _key_bits(self) -> int:
        return (self.keys - 1).bit_length()

    @property
    def _query_bits(self) -> int:
        return (self.queries - 1).bit_length()

    @cached_property
    def powers(self) -> FunctionMemory:
        """Table of 2^-u."""
        return FunctionMemory((POWER_TABLE,))

    @cached_property
    def reciprocals(self) -> FunctionMemory:
        """Table of reciprocals of a mantissa."""
        return FunctionMemory((RECIPROCAL_TABLE,))

    @property
    def score_memory(self) -> MemoryShape:
        """Scores, in whose place their weights are put: two banks, so many scores each of a row of weights."""
        rows = self.queries * self.keys // self.lanes
        width = self.exponentials * Q8_16.width
        return MemoryShape("scores and weights", rows, width, count=2 * self.lanes // self.exponentials)

    @property
    def largest_memory(self) -> MemoryShape:
        """Largest score of each query: two banks; read where the next score is compared, and where weights are made."""
        return MemoryShape("largest scores", 2 * self.queries, Q8_16.width, reads=2, lut_rows=2 * self.queries)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Scores, largest scores, tables."""
        tables = (
            *self.powers.memories("table of powers", self.exponentials),
            *self.reciprocals.memories("table of reciprocals", 1),
        )
        return (self.score_memory, self.largest_memory, *tables)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of the tables, of which two lanes share one."""
        tables = {"powers": self.powers, "reciprocals": self.reciprocals}
        return {name: (table.contents, table.width) for name, table in tables.items()}

    def operations(self, words: Words) -> list[SoftmaxOperation]:
        """Read the words of `operation`.

        Raises
        ------
        UserError
            If one is not an operation of the block.
        """
        columns = {name: column[:, 0].tolist() for name, column in words.items()}
        return [self._operation(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]

    def _operation(
        self,
        queries: int,
        keys: int,
        first: int,
        causal: int,
        factor: int,
        fraction: int,
        query_shift: int,
        key_shift: int,
        repeats: int,
    ) -> SoftmaxOperation:
        if not (1 <= queries <= self.queries and 1 <= keys <= self.keys and repeats):
            raise UserError(f"{queries} queries, {keys} keys, {repeats} repeats: not of {self.queries} and {self.keys}")
        if causal and keys != first + queries:
            raise UserError(f"{queries} causal queries from {first} on see {first + queries} keys, not {keys}")
        if fraction not in FRACTIONS:
            raise UserError(f"a factor has {FRACTIONS[0]} to {FRACTIONS[-1]} fraction bits, not {fraction}")
        shifts = query_shift, key_shift
        return SoftmaxOperation(queries, keys, first, bool(causal), (factor, fraction), shifts, repeats)

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Compute whole operations in order; of each output at most so many words."""
        scores, start, found = inputs["scores"]["score"], 0, []
        for one in self.operations(inputs["operation"]):
            count = one.pairs(self.columns) * self.columns // self.exponentials
            found.append(self._softmax(one, scores[start : start + count]))
            start += count
        outputs = joined(found)
        return {name: {key: column[:words] for key, column in fields.items()} for name, fields in outputs.items()}

    def _softmax(self, one: SoftmaxOperation, scores: Integers) -> dict[str, Words]:
        """Words of the outputs of an operation."""
        products = np.zeros((one.queries, -(-one.keys // self.columns) * self.columns), np.int64)
        rows = scores.reshape(-1, self.columns)
        for tile in one.tiles(self.columns):
            count = one.queries - tile.query
            products[tile.query :, tile.key : tile.key + self.columns], rows = rows[:count], rows[count:]
        products, narrow = products[:, : one.keys], Narrower()
        seen = np.arange(one.keys) < one.seen[:, None]
        fraction = Q8_16.fraction + Q6_12.fraction - sum(one.shifts)
        terms, inverse = weights(exponents(np.where(seen, products, 0), fraction, one.factor, narrow), seen)
        ends = np.arange(one.queries)[:, None]
        return {
            "o": self._rows(one, terms),
            "inverse": {
                "mantissa": inverse.mantissa,
                "exponent": inverse.exponent,
                "last": (ends == one.queries - 1).astype(np.int64),
                "clipped": np.where(ends == 0, narrow.saturations, 0),
            },
        }

    def _rows(self, one: SoftmaxOperation, terms: Integers) -> Words:
        """Rows of weights in the order of the array."""
        terms = np.pad(terms, ((0, 0), (0, -one.keys % self.lanes)))
        parts = []
        for tile in one.tiles(self.lanes):
            query = np.arange(tile.query, one.queries)[:, None]
            flags = {
                "swap": query == tile.query,
                "first": np.full(query.shape, tile.key == 0),
                "last": one.seen[tile.query :, None] <= tile.key + self.lanes,
            }
            weight = terms[tile.query :, tile.key : tile.key + self.lanes]
            parts.append({"o": {"weight": weight, "query": query, **{k: v.astype(np.int64) for k, v in flags.items()}}})
        return joined(parts * one.repeats)["o"]


def _count(most: int) -> Format:
    """Format of a number from 0 on."""
    return Format(most.bit_length(), 0, signed=False)
