"""Rules of `layer_norm`: no word of a row lost or made, queues without overflow, one operation after the other.

What is inside is counted: words in the row buffer, in the lanes and in the queue of results; rows whose sums are under
way and whose statistics wait. Of features there are two words at most, as counts are multiplied by a row's words.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value

from ....golden.stream.values.layer_norm import ROWS_UNDER_WAY, WORDS_UNDER_WAY, LayerNormSpec
from ....hw.primitives.fifo import Fifo
from ...formal.checker import Checker
from ...formal.inside import parts_of, variables_of

SPEC = LayerNormSpec(lanes=4, features=8)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: LayerNormSpec) -> None:
    """Add the rules; an operation has rows, and they have features."""
    assert spec.words <= 2
    m, block, parts = checker.m, checker.block, parts_of(checker.block)
    whole, loads = variables_of(block), variables_of(block, "_parameters")
    rows, values = variables_of(block, "_rows"), variables_of(block, "_values")
    operation, o = checker.streams["operation"], checker.streams["o"]
    features, count = operation.payload.features, operation.payload.rows
    checker.assume(~operation.valid | ((features != 0) & (features <= spec.features) & (count != 0)))
    active, loaded = whole.self._active, whole.self._loaded
    begun, buffered, owed = Signal(8), Signal(9), Signal(9)
    m.d.comb += [begun.eq(_stored(parts.names)), buffered.eq(_stored(parts.rows))]
    m.d.sync += owed.eq(owed + checker.moves("i") - checker.moves("o"))
    inside = Signal()
    m.d.comb += inside.eq(~rows.first)
    width, left = whole.self._word + 1, Mux(rows.taking, rows.left, 0)
    of_rows = Mux(width == 2, begun << 1, begun)
    idle = ~rows.taking & ~inside & (begun == 0) & (values.room == WORDS_UNDER_WAY) & (buffered == 0) & (values.at == 0)
    checker.lemmas_together(
        {
            "results_counted": values.room + _ones(variables_of(block, "_lanes").under_way) + _stored(parts.results)
            == WORDS_UNDER_WAY,
            "rows_counted": rows.room + begun == ROWS_UNDER_WAY,
            "words_counted": ~active | (buffered + values.at + Mux(inside, width - rows.at, 0) == of_rows),
            "rows_left": ~active | (values.left + inside == left + begun),
            "rows_taken": Mux(rows.taking, active & (rows.left != 0), ~inside),
            "within": (rows.at < width) & (values.at < width) | ~active,
            "idle": active | idle,
            "owed_counted": owed + values.room == buffered + WORDS_UNDER_WAY,
            "side": (~loads.side | loads.loading) & (loads.second == loads.side),
            "first": rows.first == (rows.at == 0),
            "loads": ~active | (loads.loading ^ loaded),
        }
    )
    checker.rule("o_made", ~o.valid | (owed != 0))
    checker.rule("o_lost", owed <= spec.buffered + 1 + WORDS_UNDER_WAY)
    checker.rule("operation_alone", ~operation.ready | (owed == 0))
    for name in ("names", "results"):
        queue = getattr(parts, name)
        checker.rule(f"{name}_room", ~queue.i.valid | queue.i.ready)
    checker.rule("parameters_first", ~values.step | loaded)


def _ones(flags: Value) -> Value:
    return sum(list(flags)[1:], flags[0])


def _stored(queue: Fifo) -> Value:
    """Payloads in a queue: in its memory, and on offer."""
    level = variables_of(queue).level
    return (level + 1)[: len(level)] + queue.o.valid
