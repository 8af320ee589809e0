"""Rules of `tile_dequant`: every beat of codes becomes weights, every beat of values becomes values."""

from __future__ import annotations

from amaranth.hdl import Cat

from ....golden.stream.weights.tile_dequant import BEAT_CODES, TileDequantSpec
from ...formal.checker import Checker
from ...formal.inside import probe_of

SPEC = TileDequantSpec(lanes=8, columns=4)
CUT = ("multipliers",)


def check(checker: Checker, spec: TileDequantSpec) -> None:
    """Assumes tensors with at least one record or value, each with at least one tile."""
    inner = probe_of(checker.block)
    operation, v = (checker.streams[name] for name in ("operation", "v"))
    sizes = (operation.payload[name] != 0 for name in ("length", "blocks", "tiles"))
    checker.assume(~operation.valid | Cat(sizes).all())
    parts = BEAT_CODES // spec.width
    codes = inner.entering & inner.room
    words = checker.balance("o_words", [(codes, 1)], "o", spec.latency, spec.latency)
    checker.rule("codes_enter", ~inner.entering | inner.room | (words != 0))
    beats = checker.moves("beats")
    # a beat is accepted once all its parts have entered
    checker.rule(
        "whole", ~(beats & inner.coded & ~inner.scaling & ~inner.skipping) | (codes & (inner.part == parts - 1))
    )
    checker.rule("values", checker.moves("v") == (beats & ~inner.coded & ~inner.skipping))
    checker.rule("one_way", ~(v.valid & inner.coded))
    checker.rule("idle", ~operation.ready | ~(beats | v.valid | inner.entering))
    checker.rule("sticky", ~operation.ready | ~inner.sticky)
    checker.rule("scales_first", ~operation.ready | (inner.at == 0) & (inner.part == 0))
    checker.progress(spec.latency + 2)
