"""Rules of `value_path`'s address sequencer: one end mark per operation, a word for every written chunk, no hang.

The proof has operations of at most two chunks of features and two rows a side.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal

from ....golden.stream.values.value_operation import KINDS, settings
from ....golden.stream.values.value_path import ValuePathSpec
from ....hw.stream.values.value_walk import ValueWalk
from ...formal.checker import Checker

_GROUPS, _ROWS, _STUCK = 2, 2, 8


def part() -> ValueWalk:
    return ValueWalk(ValuePathSpec(lanes=8, columns=4, rows=4, wide_rows=4, features=8, sums=4))


def check(checker: Checker, walk: ValueWalk) -> None:
    """Assumes no overlapping operations."""
    m, given, streams = checker.m, walk.operation, checker.streams
    words, results = streams["words"], streams["results"]
    active, positions = Signal(name="active"), Signal(name="active_positions")
    end = checker.moves("results") & results.payload.end
    m.d.sync += active.eq(walk.begin | (active & ~end))
    with m.If(walk.begin):
        m.d.sync += positions.eq(settings(given, Mux).positions)
    checker.assume(~walk.begin | ~active)
    counts = given.rows, given.sentences, given.longest
    checker.assume(given.kind.matches(*KINDS) & (given.features != 0) & (given.features <= _GROUPS * walk.spec.columns))
    checker.assume(Cat((count != 0) & (count <= _ROWS) for count in counts).all())
    # a free slot stays free until a word enters
    taken = Cat(walk.asked, checker.moves("words"), checker.moves("results"))
    room, unused = Cat(walk.room, words.ready, results.ready), Signal(len(taken), name="left")
    m.d.sync += unused.eq(room & ~taken)
    checker.assume((unused & ~room) == 0)
    checker.rule("end_made", ~(results.valid & results.payload.end) | active)
    chunk = results.valid & ~results.payload.empty & ~results.payload.end
    checker.rule("end_alone", ~(results.payload.end & results.payload.empty) | ~results.valid)
    checker.rule("words_written", chunk == (words.valid & ~words.payload.release))
    checker.rule("asked_with_room", (walk.asked & ~walk.room) == 0)
    checker.rule("asked_read", walk.asked.any() == checker.moves("read"))
    checker.rule("sentences_taken", ~streams["sentences"].ready | positions)
    # at most two reads for each chunk
    reads = Signal(range(3), name="reads")
    passes = checker.moves("words") & ~words.payload.release
    m.d.sync += reads.eq(Mux(passes, 0, reads + checker.moves("read")))
    checker.rule("two_reads", reads <= 1)
    willing = walk.room.all() & (streams["sentences"].valid | ~positions) & checker.all_ready
    still = ~(checker.moves("words") | checker.moves("results") | checker.moves("read") | checker.moves("sentences"))
    checker.passes("progress", active & willing & still, _STUCK)
