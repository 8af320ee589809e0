"""Rules of `partial_sums`: which terms wait, no part is lost or made, rows leave in order, and none is read too early.

The sums themselves are left to the bench: that a row is never read while it is being written is proved.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from ...golden.stream.partial_sums import PartialSumsSpec
from ..formal.checker import Checker
from ..formal.inside import parts_of

SPEC = PartialSumsSpec(columns=2, sums=4, drain=1)


def check(checker: Checker, spec: PartialSumsSpec) -> None:
    """Add the rules."""
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    given = i.payload
    taken, ends = checker.moves("i"), checker.moves("i") & given.last
    # rows whose sums are written one and two cycles later
    later = [(Signal(name=f"later{age}"), Signal.like(given.row, name=f"later_row{age}")) for age in range(2)]
    m.d.sync += [later[0][0].eq(taken & ~given.last), later[0][1].eq(given.row)]
    m.d.sync += [later[1][0].eq(later[0][0]), later[1][1].eq(later[0][1])]
    free = ~Cat(written & (row == given.row) for written, row in later).any()
    rows = Signal(range(spec.sums + 3), name="rows")
    leaves = checker.moves("o") & (o.payload.part == spec.parts - 1)
    m.d.sync += rows.eq(rows + ends - leaves)
    checker.rule("i_conflict", ~(taken & ~given.first) | free)
    checker.takes("i", (given.first | free) & (~given.last | (rows < spec.sums)))
    queue = parts_of(checker.block).queue
    checker.rule("queue_taken", ~queue.i.valid | queue.i.ready)
    owed = checker.balance(
        "o_parts",
        [(ends, spec.parts)],
        [(o.valid, checker.moves("o"), 1)],
        capacity=(spec.sums + 1) * spec.parts,
        drained=(spec.sums + 1) * spec.parts + spec.latency,
    )
    _in_order(checker, spec, owed)
    checker.progress(spec.parts * spec.sums + spec.latency)


def _in_order(checker: Checker, spec: PartialSumsSpec, owed: Signal) -> None:
    """Follow a complete row, any, to its parts at the output."""
    m, o = checker.m, checker.streams["o"]
    given = checker.streams["i"].payload
    checker.ports["choose"] = choose = Signal(name="choose")
    inside, ahead = Signal(name="followed"), Signal.like(owed, name="ahead")
    row, part = Signal.like(given.row, name="followed_row"), Signal.like(o.payload.part, name="followed_part")
    spend, due = checker.moves("o"), inside & (ahead == 0)
    with m.If(inside & spend):
        m.d.sync += [ahead.eq(ahead - ahead.any()), part.eq(part + due)]
        m.d.sync += inside.eq(~(due & (part == spec.parts - 1)))
    with m.Elif(~inside & checker.moves("i") & given.last & choose):
        m.d.sync += [inside.eq(1), ahead.eq(owed - spend), row.eq(given.row), part.eq(0)]
    checker.rule("o_in_order", ~(due & o.valid) | ((o.payload.row == row) & (o.payload.part == part)))
