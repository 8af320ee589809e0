"""Rules of `context_scale`: a pipeline whose stages move together, and a table of reciprocals for two query blocks."""

from __future__ import annotations

from amaranth.hdl import Signal

from ....golden.stream.softmax.context_scale import ContextScaleSpec
from ...formal.checker import Checker
from ...formal.inside import probe_of
from ...formal.pipeline import check_stages

SPEC = ContextScaleSpec(lanes=1, queries=2, keys=4)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: ContextScaleSpec) -> None:
    """Prove that sums wait for the reciprocals of their block, and reciprocals for a free bank."""
    m = checker.m
    fills = checker.moves("inverse") & checker.payload("inverse").last
    frees = checker.moves("i") & checker.payload("i").last
    blocks, into, out = Signal(range(3), name="blocks"), Signal(name="into"), Signal(name="out")
    m.d.sync += [blocks.eq(blocks + fills - frees), into.eq(into ^ fills), out.eq(out ^ frees)]
    table = probe_of(checker.block)
    count = table.full[0] + table.full[1]
    checker.lemmas_together(
        {
            "blocks_full": (blocks == count) & (table.into == into) & (table.out == out),
            "blocks_in_turn": (blocks != 1) | table.full.bit_select(out, 1),
            "offered": table.last_full == checker.streams["o"].valid,
            "there": table.there == table.full.bit_select(out, 1),
            "blocks_turn": (into ^ out) == (blocks == 1),
        }
    )
    checker.rule("inverse_taken", checker.streams["inverse"].ready == (blocks != 2))
    moves = check_stages(checker, spec, "i")
    checker.rule("i_taken", checker.streams["i"].ready == (moves & (blocks != 0)))
    checker.progress(1)
