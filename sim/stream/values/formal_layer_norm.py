"""Rules of `layer_norm`: no lost or extra word of a row, no queue overflow, no overlapping operations.

Lemmas count words in the row buffer, in the lanes and in the result queue, and rows whose sums or statistics are
pending. A row has at most two words, so that the count of rows times the row's width stays simple.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value

from ....golden.stream.values.layer_norm import ROWS_UNDER_WAY, WORDS_UNDER_WAY, LayerNormSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of, stored_in

SPEC = LayerNormSpec(lanes=4, features=8)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: LayerNormSpec) -> None:
    """Assumes operations with at least one row and feature."""
    assert spec.words <= 2
    m, block, parts = checker.m, checker.block, parts_of(checker.block)
    inside = probe_of(block)
    operation, o = checker.streams["operation"], checker.streams["o"]
    features, count = operation.payload.features, operation.payload.rows
    checker.assume(~operation.valid | ((features != 0) & (features <= spec.features) & (count != 0)))
    active, loaded = block._active, block._loaded
    begun, buffered, pending = Signal(8), Signal(9), Signal(9)
    m.d.comb += [begun.eq(stored_in(parts.names)), buffered.eq(stored_in(parts.rows))]
    m.d.sync += pending.eq(pending + checker.moves("i") - checker.moves("o"))
    within = Signal(name="inside")
    m.d.comb += within.eq(~inside.first)
    width, rows_to_take = block._word + 1, Mux(inside.taking, inside.rows_left, 0)
    of_rows = Mux(width == 2, begun << 1, begun)
    idle = ~inside.taking & ~within & (begun == 0) & (inside.values_room == WORDS_UNDER_WAY)
    idle = idle & (buffered == 0) & (inside.given == 0)
    checker.lemmas_together(
        {
            "results_counted": inside.values_room + _ones(inside.under_way) + stored_in(parts.results)
            == WORDS_UNDER_WAY,
            "rows_counted": inside.rows_room + begun == ROWS_UNDER_WAY,
            "words_counted": ~active | (buffered + inside.given + Mux(within, width - inside.taken, 0) == of_rows),
            "rows_left": ~active | (inside.values_left + within == rows_to_take + begun),
            "rows_taken": Mux(inside.taking, active & (inside.rows_left != 0), ~within),
            "within": (inside.taken < width) & (inside.given < width) | ~active,
            "idle": active | idle,
            "owed_counted": pending + inside.values_room == buffered + WORDS_UNDER_WAY,
            "side": (~inside.side | inside.loading) & (inside.second == inside.side),
            "first": inside.first == (inside.taken == 0),
            "loads": ~active | (inside.loading ^ loaded),
        }
    )
    checker.rule("o_made", ~o.valid | (pending != 0))
    checker.rule("o_lost", pending <= spec.buffered + 1 + WORDS_UNDER_WAY)
    checker.rule("operation_alone", ~operation.ready | (pending == 0))
    for name in ("names", "results"):
        queue = parts[name]
        checker.rule(f"{name}_room", ~queue.i.valid | queue.i.ready)
    checker.rule("parameters_first", ~inside.step | loaded)


def _ones(flags: Value) -> Value:
    return sum(list(flags)[1:], flags[0])
