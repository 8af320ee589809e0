"""Rules of `array_path`: what the partial sums take is all that enters, and sums leave where their rows came from.

The array and the partial sums have rules of their own. Here is what this part adds: it never gives them what they would
not take, for nothing waits behind the array.
"""

from __future__ import annotations

from amaranth.hdl import Signal

from ....golden.stream.array.array_path import ArrayPathSpec, TileKind
from ...formal.checker import Checker
from ...formal.inside import parts_of, variables_of

SPEC = ArrayPathSpec(lanes=6, columns=1, sums=4, drain=1, queries=2)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: ArrayPathSpec) -> None:
    """Add the rules; a tile has rows, and is of a kind."""
    m, block = checker.m, checker.block
    order, parts, rows = checker.streams["order"], parts_of(block), variables_of(block, "_rows")
    sizes = (order.payload.rows != 0) & (order.payload.rows <= spec.sums) & (order.payload.kind <= max(TileKind))
    checker.assume(~order.valid | sizes)
    sums, array = parts.partial_sums, parts.array
    # rows that complete their sums, from the array's door on
    inside = Signal(range(spec.sums + 1), name="inside")
    completes = rows.taken & rows.last
    leaves = sums.o.valid & sums.o.ready & (sums.o.payload.part == spec.partial_sums.parts - 1)
    m.d.sync += inside.eq(inside + completes - leaves)
    checker.lemma("room_counted", rows.room + inside == spec.sums)
    checker.rule("array_moves", array.o.ready)
    checker.rule("kinds_apart", ~rows.taken | (rows.other == rows.attention))
    checker.rule(
        "sums_apart",
        ~(checker.streams["sums"].valid & (checker.streams["scores"].valid | checker.streams["contexts"].valid))
        & ~(checker.streams["scores"].valid & checker.streams["contexts"].valid),
    )
    recent = [Signal(name=f"recent{age}") for age in range(2)]
    numbers = [Signal.like(array.x.payload.tag, name=f"number{age}") for age in range(2)]
    m.d.sync += [recent[0].eq(rows.taken), recent[1].eq(recent[0])]
    m.d.sync += [numbers[0].eq(array.x.payload.tag), numbers[1].eq(numbers[0])]
    row = spec.partial_sums.row_number.width
    again = [flag & (number[:row] == array.x.payload.tag[:row]) for flag, number in zip(recent, numbers, strict=True)]
    checker.rule("rows_apart", ~rows.taken | rows.tag.first | ~(again[0] | again[1]))
