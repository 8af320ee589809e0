"""Rules of `tile_weights`: each tile gives all beats of both sides; each tuned tile takes its word of offsets.

No tile overwrites a tile that is still in use, and vectors take no word of an earlier tile.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal
from amaranth.utils import exact_log2

from ....golden.stream.frozen_base import BLOCK
from ....golden.stream.weights.tile_weights import TileWeightsSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = TileWeightsSpec(lanes=8, columns=4, numbers=2)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: TileWeightsSpec) -> None:
    """Assumes tensors with at least one record or value, each with at least one tile."""
    block = checker.block
    inner, replay = probe_of(block), parts_of(block).replay
    operation, v, offsets = (checker.streams[name] for name in ("operation", "v", "offsets"))
    sizes = (operation.payload[name] != 0 for name in ("length", "blocks", "tiles"))
    checker.assume(~operation.valid | (Cat(sizes).all() & (operation.payload.tiles <= BLOCK // spec.lanes)))

    _tiles(checker, spec)
    matrix, under_way = inner.matrix, inner.under_way.any()
    room = ~probe_of(replay).both
    checker.lemmas_together(
        {
            "keeps": inner.keeps == v.valid,
            "idle": inner.active | ~(inner.correcting | under_way | v.valid),
            "corrected_room": ~inner.correcting | (room & inner.active & matrix & (inner.at == 0)),
            "corrects": inner.corrects == (inner.correcting & inner.corrected),
            "fills": inner.filling == (inner.active & matrix & ~inner.correcting & room),
            "corrected": ~(inner.active & matrix & under_way) | inner.correcting,
            "no_value": ~(inner.active & matrix) | ~v.valid,
            "filling": (inner.at == 0) | (inner.active & matrix),
        }
    )
    with checker.lemmas_end():
        _corrections(checker, spec)
    done, tuned = replay.done, replay.done & replay.tuned
    checker.balance("w_beats", [(done, spec.lanes)], "w", 2 * spec.lanes + 2)
    words = checker.balance("tile_words", [(tuned, 1)], [(replay.take, replay.take, 1)], 2)
    checker.rule("words_wait", (words == 0) | replay.waits)
    checker.rule("one_taker", ~(replay.take & inner.word_used))
    checker.rule("words_taken", (replay.take | inner.word_used) == checker.moves("offsets"))
    checker.rule("vectors_wait", ~inner.word_used | (words == 0))
    checker.rule("room", ~replay.enable.any() | room)
    checker.rule("done_room", ~done | room)
    checker.rule("kept", ~(done & replay.enable.any()))
    checker.rule("begins", ~operation.ready | ((inner.at == 0) & ~inner.wrong))
    checker.rule("offered", ~replay.take | offsets.valid)


def _corrections(checker: Checker, spec: TileWeightsSpec) -> None:
    """Prove that a tile gets all corrections up to its end, and no later correction."""
    inner = probe_of(checker.block)
    reached = inner.final | (inner.correction.place[exact_log2(spec.weights) :] <= inner.tile)
    # holds unless the tile changed in the previous cycle
    same = inner.correcting | (inner.at != 0)
    checker.lemma("reached", ~same | ~inner.there | (inner.reached == reached))
    due = inner.corrected & inner.there & reached
    checker.rule("corrections_due", ~inner.correction_used | (inner.correcting & due))
    checker.rule("corrections_used", ~parts_of(checker.block).replay.done | ~due)


def _tiles(checker: Checker, spec: TileWeightsSpec) -> None:
    """Prove the number of outstanding beats: those of full tiles, less the sent beats of the first tile."""
    replay, w = parts_of(checker.block).replay, checker.streams["w"]
    inner = probe_of(replay)
    filled, both, fill, drain = inner.there, inner.both, inner.fill, inner.drain
    position = Cat(inner.at, inner.side)
    pending = Signal(range(3 * spec.lanes))
    checker.m.d.sync += pending.eq(pending + Mux(replay.done, spec.lanes, 0) - checker.moves("w"))
    whole = (filled + both) * spec.lanes
    # number of offset words for stored tiles; a tile takes its word with its first beat
    words = Signal(range(4))
    checker.m.d.sync += words.eq(words + (replay.done & replay.tuned) - replay.take)
    checker.lemmas_together(
        {
            "banks": (fill == drain) == (filled == both),
            "drained": filled | (~both & (position == 0)),
            "tuned": (filled | ~inner.own) & (both | ~inner.following),
            "waits": inner.waits == (inner.own | inner.following),
            "needs": inner.needs == (inner.own & inner.start),
            "copies": inner.valid[0] == inner.valid[1],
            "start": inner.start == (inner.at == 0),
            "end": inner.end == inner.at.all(),
            "words": words == (inner.own & (inner.start | ~inner.side)) + inner.following,
            "final": inner.final == Cat(inner.end, inner.side).all(),
            "owed": pending == whole - position + inner.read + w.valid,
        }
    )
