"""`attention_softmax`: scores of a block of queries to rows of weights and reciprocals of their sums.

The array computes scores by group of keys; weights leave by tile of keys. Both streams omit keys that a causal query
cannot see. For the arithmetic see `attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described, joined
from ...errors import UserError, check_power
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
"""Allowed fraction bits of a factor."""
REPEATS = Format(12, 0, signed=False)


class KeyTile(NamedTuple):
    """Tile of keys: its first key, and the first query of the block that sees any of its keys (later ones do, too)."""

    key: int
    query: int


@dataclass(frozen=True)
class SoftmaxOperation:
    """A block of queries of one head and sentence.

    Parameters
    ----------
    queries, keys : int
        Number of queries, and of keys; for causal attention the keys end with the last query's.
    first : int
        Position of the first query in its sentence.
    causal : bool
        If true, query q of the sentence sees keys 0 to q, else all.
    factor : (int, int)
        Factor of the scores, see `attention.Attention.factor`.
    shifts : (int, int)
        Fraction bits that queries and keys lack against Q8.16 and Q6.12.
    repeats : int
        Number of times the weights go to the array: once for each group of a head's features.
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
        """Number of keys visible to each query."""
        if not self.causal:
            return np.full(self.queries, self.keys)
        return self.first + 1 + np.arange(self.queries)

    def tiles(self, size: int) -> Iterator[KeyTile]:
        for key in range(0, self.keys, size):
            yield KeyTile(key, max(0, key - self.first) if self.causal else 0)

    def pairs(self, size: int) -> int:
        """Number of pairs of a tile of `size` keys and a query that sees at least one key of the tile."""
        return sum(self.queries - tile.query for tile in self.tiles(size))


@dataclass(frozen=True, kw_only=True)
class AttentionSoftmaxSpec(Spec):
    """Parameters and model of `attention_softmax`.

    Parameters
    ----------
    columns : int
        Keys of a group of scores, the array's columns: a power of two to 64, a multiple of `exponentials`.
    lanes : int
        Weights of a row, the array's lanes: a power of two to 64, more than `exponentials`.
    exponentials : int
        Scores and weights per cycle: a power of two from 1 to 16.
    queries : int
        Maximum number of queries of a block: a power of two from 2 to 1,024.
    keys : int
        Maximum number of keys of an operation: a power of two to 1,024, at least `lanes` and two groups of `columns`.
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
            check_power(name, value, low, high)
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
        """Cycles from the read of a score to its weight: memory, operand, distance, table 5, shift 6."""
        return 14

    @property
    def latency(self) -> int:
        """Cycles from the read of a query's last score to the reciprocal: weight, mask, sum 2 or more, table 7."""
        return self.weight_latency + 9 + self._levels

    @property
    def _levels(self) -> int:
        return (self.exponentials - 1).bit_length()

    def cycles(self, operations: list[SoftmaxOperation]) -> int:
        """Cycles from the first operation to the last output, without back-pressure.

        A phase passes its block on before it takes the next. Scores wait for a free bank.
        """
        end = bank = other = free = idle = unread = 0
        for op in operations:
            last_score = max(free, bank) + op.pairs(self.columns) * self.columns // self.exponentials
            handed = max(last_score + 1, idle)
            last_weight = max(handed, last_score + self.score_latency) + int((-(-op.seen // self.exponentials)).sum())
            passed_on = max(last_weight + 1, unread)
            last_row = max(passed_on, last_weight + self.weight_latency) + op.repeats * op.pairs(self.lanes)
            free, idle, unread, bank, other = handed + 1, passed_on + 1, last_row + 1, other, last_row + 3
            end = max(end, last_row + 3, last_weight + self.latency)
        return end + 1

    def streams(self) -> dict[str, Stream]:
        operation = (
            Field("queries", Format.up_to(self.queries), doc="how many, 1 to `queries`"),
            Field("keys", Format.up_to(self.keys), doc="how many, 1 to `keys`; of causal attention `first + queries`"),
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
                Format.up_to(2 * self.queries * self.keys),
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
        return FunctionMemory((POWER_TABLE,))

    @cached_property
    def reciprocals(self) -> FunctionMemory:
        return FunctionMemory((RECIPROCAL_TABLE,))

    @property
    def score_memory(self) -> MemoryShape:
        """Scores, later overwritten by their weights: two banks of a row's weights, `exponentials` values per word."""
        rows = self.queries * self.keys // self.lanes
        width = self.exponentials * Q8_16.width
        return MemoryShape("scores and weights", rows, width, count=2 * self.lanes // self.exponentials)

    @property
    def largest_memory(self) -> MemoryShape:
        """Largest score of each query, two banks; read to compare the next score, and to compute weights."""
        return MemoryShape("largest scores", 2 * self.queries, Q8_16.width, reads=2, lut_rows=2 * self.queries)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        tables = (
            *self.powers.memories("table of powers", self.exponentials),
            *self.reciprocals.memories("table of reciprocals", 1),
        )
        return (self.score_memory, self.largest_memory, *tables)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of the tables; two lanes share a table."""
        tables = {"powers": self.powers, "reciprocals": self.reciprocals}
        return {name: (table.contents, table.width) for name, table in tables.items()}

    def operations(self, words: Words) -> list[SoftmaxOperation]:
        """Operations from the words of `operation`.

        Raises `UserError` if a field is out of range.
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
        scores, start, outputs_of = inputs["scores"]["score"], 0, []
        for op in self.operations(inputs["operation"]):
            count = op.pairs(self.columns) * self.columns // self.exponentials
            outputs_of.append(self._softmax(op, scores[start : start + count]))
            start += count
        outputs = joined(outputs_of)
        return {name: {key: column[:words] for key, column in fields.items()} for name, fields in outputs.items()}

    def _softmax(self, op: SoftmaxOperation, scores: Integers) -> dict[str, Words]:
        products = np.zeros((op.queries, -(-op.keys // self.columns) * self.columns), np.int64)
        rows = scores.reshape(-1, self.columns)
        for tile in op.tiles(self.columns):
            count = op.queries - tile.query
            products[tile.query :, tile.key : tile.key + self.columns], rows = rows[:count], rows[count:]
        products, narrow = products[:, : op.keys], Narrower()
        seen = np.arange(op.keys) < op.seen[:, None]
        fraction = Q8_16.fraction + Q6_12.fraction - sum(op.shifts)
        terms, inverse = weights(exponents(np.where(seen, products, 0), fraction, op.factor, narrow), seen)
        ends = np.arange(op.queries)[:, None]
        return {
            "o": self._rows(op, terms),
            "inverse": {
                "mantissa": inverse.mantissa,
                "exponent": inverse.exponent,
                "last": (ends == op.queries - 1).astype(np.int64),
                "clipped": np.where(ends == 0, narrow.saturations, 0),
            },
        }

    def _rows(self, op: SoftmaxOperation, terms: Integers) -> Words:
        terms = np.pad(terms, ((0, 0), (0, -op.keys % self.lanes)))
        parts = []
        for tile in op.tiles(self.lanes):
            query = np.arange(tile.query, op.queries)[:, None]
            flags = {
                "swap": query == tile.query,
                "first": np.full(query.shape, tile.key == 0),
                "last": op.seen[tile.query :, None] <= tile.key + self.lanes,
            }
            weight = terms[tile.query :, tile.key : tile.key + self.lanes]
            parts.append({"o": {"weight": weight, "query": query, **{k: v.astype(np.int64) for k, v in flags.items()}}})
        return joined(parts * op.repeats)["o"]
