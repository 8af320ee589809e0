"""Rules of `attention_softmax`: exact counts of scores, rows and reciprocals for each block of queries, and no hang."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import exact_log2

from ....golden.stream.softmax.attention_softmax import AttentionSoftmaxSpec
from ....hw.stream.softmax.key_tiles import KeyTiles
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = AttentionSoftmaxSpec(columns=2, lanes=2, exponentials=1, queries=2, keys=4)
CUT = ("multipliers", "memories")
_REPEATS = 2
"""Largest number of repeats per operation, an assumption."""


def check(checker: Checker, spec: AttentionSoftmaxSpec) -> None:
    """Assumes operations within the contract, with few repeats.

    The lemmas, proved together, compute the number of outstanding words from the state of each phase. No word is
    therefore lost or invented.
    """
    m, config, begin = checker.m, checker.payload("operation"), checker.moves("operation")
    checker.assume((config.queries >= 1) & (config.queries <= spec.queries) & (config.keys >= 1))
    checker.assume((config.keys <= spec.keys) & (~config.causal | (config.keys == config.first + config.queries)))
    checker.assume((config.repeats >= 1) & (config.repeats <= _REPEATS))
    asked = _Block(config.queries - 1, config.keys - 1, config.first, config.causal)
    words = exact_log2(spec.columns // spec.exponentials)
    scores, rows, inverses = (
        Signal(bits, name=f"{name}_owed") for name, bits in (("scores", 6), ("rows", 7), ("inverses", 6))
    )
    m.d.sync += [
        scores.eq(scores + Mux(begin, asked.pairs(spec.columns) << words, 0) - checker.moves("scores")),
        rows.eq(rows + Mux(begin, _times(config.repeats, asked.pairs(spec.lanes)), 0) - checker.moves("o")),
        inverses.eq(inverses + Mux(begin, config.queries, 0) - checker.moves("inverse")),
    ]
    block = probe_of(checker.block)
    parts = parts_of(checker.block)
    come, weigh, read = checker.block.phases
    coming, weighing = come.active | come.over, weigh.active | weigh.over
    blocks = [_Block.of(phase.block) for phase in (come, weigh, read)]
    query, word, ending = block.query, block.word, probe_of(checker.block.weights).ending
    read_valid = Cat(block.row_valid, block.offered)
    later = Mux(coming, _times(come.repeats + 1, blocks[0].pairs(spec.lanes)), 0)
    later += Mux(weighing, _times(weigh.block.repeats + 1, blocks[1].pairs(spec.lanes)), 0)
    checker.lemmas_together(
        {
            "offers": block.offers == block.offered,
            "one_phase": ~(come.active & come.over) & ~(weigh.active & weigh.over),
            "legal_0": ~coming | blocks[0].legal & (come.repeats < _REPEATS) & (come.block.repeats == 0),
            "legal_1": ~weighing | blocks[1].legal & (weigh.block.repeats < _REPEATS),
            "legal_2": ~read.active | blocks[2].legal & (read.block.repeats < _REPEATS),
            "groups": ~come.active | _inside(parts.groups, blocks[0], spec.columns),
            "tiles": ~read.active | _inside(parts.tiles, blocks[2], spec.lanes),
            "weighed": ~weigh.active | (query <= blocks[1].queries),
            "scores_inside": scores
            == Mux(come.active, (_left(parts.groups, blocks[0], spec.columns) << words) - word, 0),
            "rows_inside": rows
            == later + Mux(read.active, _left(parts.tiles, blocks[2], spec.lanes), 0) + sum(read_valid),
            "inverses_inside": inverses
            == Mux(coming, blocks[0].queries + 1, 0)
            + Mux(weigh.active, blocks[1].queries + 1 - query, 0)
            + sum(ending),
        }
    )
    _banks(checker, spec, scores)
    checker.rule("scores_taken", checker.streams["scores"].ready == (scores != 0))
    checker.rule("operation_waits", ~checker.streams["operation"].ready | (scores == 0))
    checker.rule("o_made", ~checker.streams["o"].valid | (rows != 0))
    checker.rule("inverse_made", ~checker.streams["inverse"].valid | (inverses != 0))


def _banks(checker: Checker, spec: AttentionSoftmaxSpec, scores: Signal) -> None:
    """Lemmas about the two banks; together they exclude a hang.

    A bank is busy while a phase works on the bank's block, or while the block's last row leaves. A phase waits only
    until data of the previous phase are stored, a fixed number of cycles.
    """
    m, block, parts = checker.m, probe_of(checker.block), parts_of(checker.block)
    come, weigh, read = checker.block.phases
    last_score = block.step & block.last & parts.groups.ends
    stored, put, held, going = ([] for _ in range(4))
    for bank in range(2):
        stored.append(Signal(spec.score_latency, name=f"stored{bank}"))
        put.append(Signal(spec.weight_latency, name=f"put{bank}"))
        m.d.sync += stored[bank].eq(Cat(last_score & (come.block.bank == bank), stored[bank][:-1]))
        with m.If(block.move):
            m.d.sync += put[bank].eq(Cat(block.finish & (weigh.block.bank == bank), put[bank][:-1]))
        held.append(
            [
                active & (phase.block.bank == bank)
                for active, phase in (
                    (come.active | come.over, come),
                    (weigh.active | weigh.over, weigh),
                    (read.active, read),
                )
            ]
        )
        going.append(
            [
                valid & ends & (place == bank)
                for valid, ends, place in zip(block.row_valid, block.row_ends, block.row_banks, strict=True)
            ]
        )
    checker.rule("last_score", last_score == (checker.moves("scores") & (scores == 1)))
    lemmas = {"stored": parts.scores.stored == Cat(bits[-1] for bits in stored)}
    lemmas["put"] = checker.block.weights.put_last == Cat(bits[-1] for bits in put)
    for bank in range(2):
        for name, way in (("stored", stored[bank]), ("put", put[bank])):
            lemmas[f"{name}_one{bank}"] = (way & (way - 1)[: len(way)]) == 0
        waits = (come.over & (come.block.bank == bank)) | (weigh.active & (weigh.block.bank == bank))
        reads = (weigh.over & (weigh.block.bank == bank)) | held[bank][2]
        users = Cat(*held[bank], *going[bank])
        lemmas |= {
            f"busy{bank}": block.busy[bank] == users.any(),
            f"alone{bank}": (users & (users - 1)[: len(users)]) == 0,
            f"filled{bank}": waits == (block.filled[bank] ^ stored[bank].any()),
            f"filled_once{bank}": ~block.filled[bank] | ~stored[bank].any(),
            f"going{bank}": ~Cat(going[bank]).any() | block.weighted[bank],
            f"weighted{bank}": (reads | Cat(going[bank]).any()) == (block.weighted[bank] ^ put[bank].any()),
            f"weighted_once{bank}": ~block.weighted[bank] | ~put[bank].any(),
        }
    lemmas["edge"] = ~weigh.active | (
        block.edge == Mux(weigh.block.causal, weigh.block.first + block.query, weigh.block.keys)
    )
    lemmas["part"] = ~weigh.active | (block.part <= block.edge >> exact_log2(spec.exponentials))
    checker.lemmas_together(lemmas)


class _Block:
    """Reference model of a block: index of the last query, of the last key, and if causal of the key of query 0."""

    def __init__(self, queries: Value, keys: Value, first: Value, causal: Value) -> None:
        self.queries, self.keys, self.first, self.causal = queries, keys, first, causal

    @classmethod
    def of(cls, fields: Any) -> _Block:
        return cls(fields.queries, fields.keys, fields.first, fields.causal)

    @property
    def legal(self) -> Value:
        """A causal block is legal if its last query stands at the last key, any other block always."""
        return ~self.causal | (self.keys == self.first + self.queries)

    def begin(self, key: int) -> Value:
        """First query that attends to a key of the tile that starts at `key`."""
        return Mux(self.causal & (self.first < key), key - self.first, 0)

    def pairs(self, size: int, behind: Value | None = None) -> Value:
        """Number of (tile, query) pairs with attention, in all tiles or in the tiles after tile `behind`."""
        total: Value = Value.cast(0)
        for tile in range(SPEC.keys // size):
            counts = (self.keys >= tile * size) & (1 if behind is None else behind < tile)
            total += Mux(counts, self.queries + 1 - self.begin(tile * size), 0)
        return total.as_unsigned()


def _inside(tiles: KeyTiles, block: _Block, size: int) -> Value:
    """High if the present tile and query lie in the block."""
    inside = probe_of(tiles)
    fits = (tiles.query <= block.queries) & (tiles.tile <= block.keys >> exact_log2(size))
    for tile in range(SPEC.keys // size):
        fits &= (tiles.tile != tile) | (tiles.query >= block.begin(tile * size))
    return fits & (inside.following == tiles.tile + 1) & (inside.repeat <= tiles.block.repeats)


def _left(tiles: KeyTiles, block: _Block, size: int) -> Value:
    """Number of remaining pairs, the present pair included."""
    inside = probe_of(tiles)
    here = block.queries + 1 - tiles.query + block.pairs(size, tiles.tile)
    # as unsigned, since a signed product would be truncated
    later = _times((tiles.block.repeats - inside.repeat).as_unsigned(), block.pairs(size))
    return (here + later).as_unsigned()


def _times(count: Value, value: Value) -> Value:
    """`count` times `value`, by additions."""
    total: Value = Value.cast(0)
    for number in range(_REPEATS):
        total += Mux(count > number, value, 0)
    return total.as_unsigned()
