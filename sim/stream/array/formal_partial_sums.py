"""Rules of `partial_sums`: when terms must wait, no lost or extra result, row order, no read of a row being written.

The bench checks the sums themselves.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal

from ....golden.stream.array.partial_sums import PartialSumsSpec
from ....hw.primitives.fifo import Fifo
from ...formal.checker import Checker
from ...formal.inside import parts_of

SPEC = PartialSumsSpec(columns=2, sums=4, drain=1)


def check(checker: Checker, spec: PartialSumsSpec) -> None:
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    term = i.payload
    taken, ends = checker.moves("i"), checker.moves("i") & term.last
    # rows taken 1 and 2 cycles ago, whose write-back is under way
    later = [(Signal(name=f"later{age}"), Signal.like(term.row, name=f"later_row{age}")) for age in range(2)]
    m.d.sync += [later[0][0].eq(taken & ~term.last), later[0][1].eq(term.row)]
    m.d.sync += [later[1][0].eq(later[0][0]), later[1][1].eq(later[0][1])]
    free = ~Cat(written & (row == term.row) for written, row in later).any()
    rows = Signal(range(spec.sums + 3), name="rows")
    leaves = checker.moves("o") & (o.payload.part == spec.parts - 1)
    m.d.sync += rows.eq(rows + ends - leaves)
    checker.rule("i_conflict", ~(taken & ~term.first) | free)
    checker.takes("i", (term.first | free) & (~term.last | (rows < spec.sums)))
    queue = parts_of(checker.block).queue
    checker.rule("queue_taken", ~queue.i.valid | queue.i.ready)
    checker.balance(
        "o_parts",
        [(ends, spec.parts)],
        "o",
        capacity=(spec.sums + 1) * spec.parts,
        drained=(spec.sums + 1) * spec.parts + spec.latency,
    )
    _in_order(checker, spec, queue)
    checker.progress(spec.parts * spec.sums + spec.latency)


def _in_order(checker: Checker, spec: PartialSumsSpec, queue: Fifo) -> None:
    """Prove that complete rows enter the queue in order, and that the parts of each row leave in order.

    `formal_fifo` proves the order within the queue.
    """
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    moves, enters, leaves = ~o.valid | o.ready, queue.i, queue.o
    ends = [Signal(name=f"ends{age}") for age in range(2)]
    rows = [Signal.like(i.payload.row, name=f"ends_row{age}") for age in range(2)]
    m.d.sync += Cat(ends).eq(Cat(checker.moves("i") & i.payload.last, ends[0]))
    m.d.sync += Cat(rows).eq(Cat(i.payload.row, rows[0]))
    checker.rule("queue_given", (enters.valid == ends[1]) & (~ends[1] | (enters.payload.row == rows[1])))
    part, before = Signal.like(o.payload.part, name="next_part"), Signal.like(o.payload.part, name="offered_part")
    offered, row = Signal(name="offered"), Signal.like(o.payload.row, name="offered_row")
    final = part == spec.parts - 1
    with m.If(moves):
        m.d.sync += [offered.eq(leaves.valid), row.eq(leaves.payload.row), before.eq(part)]
        m.d.sync += part.eq(Mux(leaves.valid, Mux(final, 0, part + 1), part))
    as_offered = ~offered | ((o.payload.row == row) & (o.payload.part == before))
    checker.rule("o_in_order", (o.valid == offered) & as_offered & (leaves.ready == (moves & final)))
