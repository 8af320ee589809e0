"""Rules of `tile_weights`: all beats of both sides for each tile, and a word of offsets for each that is tuned.

No tile is written over one that has not left, and vectors take no word that belongs to a tile before them.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal

from ....golden.stream.nf4_weights import BLOCK
from ....golden.stream.weights.tile_weights import TileWeightsSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, variables_of

SPEC = TileWeightsSpec(lanes=8, columns=4, numbers=2)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: TileWeightsSpec) -> None:
    """Add the rules; a tensor has at least one record or value, and at least a tile in each."""
    block = checker.block
    inner, replay = variables_of(block), parts_of(block).replay
    numbers, values = variables_of(block, "_numbers"), variables_of(block, "_values")
    given, w, v, offsets = (checker.streams[name] for name in ("operation", "w", "v", "offsets"))
    sizes = (given.payload[name] != 0 for name in ("length", "blocks", "tiles"))
    checker.assume(~given.valid | (Cat(sizes).all() & (given.payload.tiles <= BLOCK // spec.lanes)))

    _tiles(checker, spec)
    matrix, under_way = inner.settings.matrix, values.under_way.any()
    checker.lemmas_together(
        {
            "idle": inner.active | ~(inner.correcting | under_way | v.valid),
            "corrected_room": ~inner.correcting | (replay.free & inner.active & matrix & (inner.at == 0)),
            "corrected": ~(inner.active & matrix & under_way) | inner.correcting,
            "no_value": ~(inner.active & matrix) | ~v.valid,
        }
    )
    done, tuned = replay.done, replay.done & replay.tuned
    checker.balance("w_beats", [(done, spec.lanes)], [(w.valid, checker.moves("w"), 1)], 2 * spec.lanes + 2)
    words = checker.balance("tile_words", [(tuned, 1)], [(replay.take, replay.take, 1)], 2)
    checker.rule("words_wait", (words == 0) | replay.waits)
    checker.rule("one_taker", ~(replay.take & numbers.used))
    checker.rule("words_taken", (replay.take | numbers.used) == checker.moves("offsets"))
    checker.rule("vectors_wait", ~numbers.used | (words == 0))
    checker.rule("room", ~replay.enable.any() | replay.free)
    checker.rule("done_room", ~done | replay.free)
    checker.rule("kept", ~(done & replay.enable.any()))
    checker.rule("corrections_due", ~checker.moves("corrections") | (inner.correcting & inner.due))
    checker.rule("begins", ~given.ready | ((inner.at == 0) & ~inner.wrong))
    checker.rule("offered", ~replay.take | offsets.valid)


def _tiles(checker: Checker, spec: TileWeightsSpec) -> None:
    """Tiles that are full and what has left of the first account for all beats that are owed."""
    replay, w = parts_of(checker.block).replay, checker.streams["w"]
    inner = variables_of(replay)
    full, fill, drain, position = inner.full, inner.fill, inner.drain, Cat(inner.at, inner.side)
    owed = Signal(range(3 * spec.lanes))
    checker.m.d.sync += owed.eq(owed + Mux(replay.done, spec.lanes, 0) - checker.moves("w"))
    whole = (full[0] + full[1]) * spec.lanes
    checker.lemmas_together(
        {
            "banks": (fill == drain) == (full[0] == full[1]),
            "drained": full.bit_select(drain, 1) | ((full == 0) & (position == 0)),
            "start": inner.start == (inner.at == 0),
            "end": inner.end == inner.at.all(),
            "owed": owed == whole - position + inner.valid + w.valid,
        }
    )
