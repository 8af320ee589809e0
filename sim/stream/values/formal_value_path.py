"""Rules of `value_path`: no overlapping operations, each with a `done` after its last write.

Left out are queues and the three pipelines, which have proofs of their own. The address queue is assumed to keep all
words and to mark an operation's last word. Address sequencer and operand queues have rules of their own.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from ....golden.stream.values.value_operation import KINDS
from ....golden.stream.values.value_path import ValuePathSpec
from ...formal.checker import Checker
from ...formal.inside import leave_out, parts_of

SPEC = ValuePathSpec(lanes=8, columns=4, rows=4, wide_rows=4, features=8, sums=4)
_QUEUED = 3
"""Assumed depth of the address queue, in chunks."""


def check(checker: Checker, spec: ValuePathSpec) -> None:
    m, parts, operation = checker.m, parts_of(checker.block), checker.payload("operation")
    leave_out(checker, checker.block, "walk")
    walk, places, jobs = parts.walk, parts.places, parts.jobs
    counts = operation.rows, operation.sentences, operation.longest
    checker.assume(operation.kind.matches(*KINDS) & (operation.features != 0))
    checker.assume(Cat((count != 0) & (count <= spec.longest) for count in counts).all())
    # a free slot stays free until a word enters
    taken = Cat(walk.asked, jobs.i.valid & jobs.i.ready, places.i.valid & places.i.ready)
    room, unused = Cat(parts.first.room, parts.second.room, jobs.i.ready, places.i.ready), Signal(4, name="left")
    m.d.sync += unused.eq(room & ~taken)
    checker.assume((unused & ~room) == 0)
    queued, ends = Signal(range(_QUEUED + 1), name="queued"), Signal(name="ends")
    leaves = places.o.valid & places.o.ready
    m.d.sync += queued.eq(queued + taken[3] - leaves)
    with m.If(taken[3] & places.i.payload.end):
        m.d.sync += ends.eq(1)
    with m.Elif(leaves & places.o.payload.end):
        m.d.sync += ends.eq(0)
    checker.assume(~places.i.ready | (queued != _QUEUED))
    checker.assume(~places.o.valid | (queued != 0))
    checker.assume(~places.o.valid | (places.o.payload.end == (ends & (queued == 1))))
    checker.assume(~(places.o.payload.end & places.o.payload.empty))
    pending = checker.words("operation", "done", 1)
    checker.rule("operation_taken", checker.streams["operation"].ready == (pending == 0))
    checker.rule("done_last", ~checker.streams["done"].valid | ~checker.streams["write"].valid)
    checker.rule("write_owed", ~checker.streams["write"].valid | (pending != 0))
    biases, full = checker.streams["biases"], Signal(name="full")
    released = jobs.o.valid & jobs.o.payload.release
    m.d.sync += full.eq((full & ~released) | (checker.moves("biases") & biases.payload.last))
    checker.rule("biases_taken", biases.ready == ~full)
    sums = checker.streams["sums"]
    checker.rule("sums_taken", ~sums.ready | (jobs.o.valid & ~jobs.o.payload.release))
