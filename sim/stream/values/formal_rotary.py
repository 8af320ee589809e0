"""Rules of `rotary`: takes only requested chunks, loses or invents none in the rings, one `done` for each operation.

Here a head is a single chunk of two words.
"""

from __future__ import annotations

from amaranth.hdl import Signal

from ....golden.stream.values.rotary import RotarySpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = RotarySpec(lanes=8, columns=8, rows=4, wide_rows=4, sums=4, width=8)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: RotarySpec) -> None:
    """Assumes operations with at least one head, position and sentence."""
    m, block, operation = checker.m, checker.block, checker.payload("operation")
    checker.assume((operation.heads != 0) & (operation.key_heads != 0) & (operation.width == spec.width))
    checker.assume((operation.longest != 0) & (operation.sentences != 0))
    pending = Signal(4, name="operands_owed")
    m.d.sync += pending.eq(pending + checker.moves("operands_read") - checker.moves("operands"))
    turn = parts_of(block).turn
    inside = probe_of(turn)
    heads = sum(list(inside.flags)[1:], inside.flags[0])
    chunks = Signal(6, name="chunks_inside")
    m.d.sync += chunks.eq(chunks + checker.moves("operands") - checker.moves("write"))
    checker.lemmas_together(
        {
            "owed_counted": pending == block._owed,
            "before_counted": inside.stored + inside.before + inside.second == spec.ring,
            "behind_counted": inside.behind + inside.made + inside.second + heads == spec.ring,
            "chunks_counted": chunks == inside.stored + inside.second + heads + inside.made + turn.o.valid,
        }
    )
    checker.rule("operands_asked", ~checker.streams["operands"].ready | (pending != 0))
    checker.rule("reads_bounded", pending <= 7)
    checker.rule("write_made", ~checker.streams["write"].valid | (chunks != 0))
    checker.rule("chunks_lost", chunks <= 2 * spec.ring + 1)
    busy = Signal(name="busy")
    m.d.sync += busy.eq((busy | checker.moves("operation")) & ~checker.moves("done"))
    checker.lemma("states", busy == ~probe_of(block).state("IDLE"))
    checker.rule("operation_alone", ~checker.streams["operation"].ready | ~busy)
    checker.rule("done_alone", ~checker.streams["done"].valid | busy)
