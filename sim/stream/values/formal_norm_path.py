"""Rules of `norm_path`: all chunks are read and written in order, and `done` follows the last write.

The norm has rules of its own. Here it is cut: its results are arbitrary, in the number that the operation needs.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import exact_log2

from ....golden.stream.values.norm_path import NormPathSpec
from ...formal.checker import Checker
from ...formal.inside import leave_out, parts_of, probe_of

SPEC = NormPathSpec(lanes=8, columns=8, rows=16, wide_rows=4, sums=4, norm_lanes=4, features=16)


class _Walk:
    """Position in the rows of both sides: advances unit by unit through each row, to the end of the last row.

    `begin` is high at the start of an operation, `moves` at the end of a unit. `last` is the index of a row's last
    unit, `rows` the number of rows of both sides together.
    """

    def __init__(self, checker: Checker, name: str, begin: Value, moves: Value, last: Signal, rows: Value) -> None:
        self.left, self.row = Signal(name=f"{name}_left"), Signal(len(rows), name=f"{name}_at_row")
        self.unit, self.ends = Signal(len(last), name=f"{name}_unit"), Signal(name=f"{name}_ends")
        checker.m.d.comb += self.ends.eq(self.unit == last)
        with checker.m.If(begin):
            checker.m.d.sync += [self.left.eq(1), self.row.eq(0), self.unit.eq(0)]
        with checker.m.Elif(moves):
            checker.m.d.sync += [
                self.unit.eq(Mux(self.ends, 0, self.unit + 1)),
                self.row.eq(self.row + self.ends),
                self.left.eq(~self.ends | (self.row + 1 != rows)),
            ]
        self.within = Mux(self.left, (self.row < rows) & (self.unit <= last), (self.row == rows) & (self.unit == 0))


def check(checker: Checker, spec: NormPathSpec) -> None:
    """Assumes operations with features and rows, and a memory with an answer to every read."""
    m, block, config = checker.m, checker.block, checker.payload("operation")
    leave_out(checker, block, "source", "destination")
    norm = parts_of(block).norm
    checker.assume((config.features != 0) & (config.features <= spec.features))
    checker.assume((config.rows != 0) & (config.rows <= spec.longest))
    begin, done = checker.moves("operation"), checker.streams["done"]
    job, busy = Signal.like(config, name="job"), Signal(name="busy")
    m.d.sync += busy.eq((busy | begin) & ~checker.moves("done"))
    with m.If(begin):
        m.d.sync += job.eq(config)
    words, rows = exact_log2(spec.columns // spec.norm_lanes), job.rows << 1
    last_word = Signal(exact_log2(spec.features // spec.norm_lanes), name="last_word")
    m.d.comb += last_word.eq((job.features - 1) >> exact_log2(spec.norm_lanes))
    last_chunk = last_word[words:]
    taken, made = norm.i.valid & norm.i.ready, norm.o.valid & norm.o.ready
    reads = _Walk(checker, "reads", begin, checker.moves("operands_read"), last_chunk, rows)
    takes = _Walk(checker, "takes", begin, taken, last_word, rows)
    makes = _Walk(checker, "makes", begin, made, last_word, rows)
    accepted, inside = _norm(checker, norm, takes, makes, taken, made)
    owed = Signal(range(spec.sums * (spec.features // spec.columns) + 1), name="owed")
    m.d.sync += owed.eq(owed + checker.moves("operands_read") - checker.moves("operands"))
    checker.assume(~checker.streams["operands"].valid | (owed != 0))
    probe = probe_of(block)
    wide, width = last_chunk + 1, last_word + 1
    places = reads.row * wide + reads.unit == takes.row * wide + takes.unit[words:] + owed
    row_ends, chunk_ends = probe.word == last_word, probe.word[:words].all()
    pending = probe.final.any() | done.valid
    checker.lemmas_together(
        {
            "active": probe.active == busy,
            "settings": ~busy | (block._settings.as_value() == job.as_value()),
            "last": ~busy | (block._last_word == last_word),
            "told": ~busy | (probe.told == accepted),
            "reading": probe.reading == (busy & reads.left),
            "read": ~reads.left | ((probe.chunk == reads.unit) & (probe.read_row == reads.row)),
            "taken": ~takes.left | ((probe.word == takes.unit) & (probe.taken_row == takes.row)),
            "flags": ~accepted | (probe.ends == row_ends) & (probe.closes == (row_ends | chunk_ends)),
            "written": ~makes.left | ((probe.written_row == makes.row) & (probe.part == makes.unit[:words])),
            "part": makes.left | (probe.part == 0),
            "within": ~busy | (reads.within & takes.within & makes.within & (rows != 0) & (rows <= spec.sums)),
            "owed": ~busy | places,
            "inside": ~busy | (takes.row * width + takes.unit == makes.row * width + makes.unit + inside),
            "idle": busy | ~(reads.left | takes.left | makes.left | pending),
            "pending": ~pending | ~makes.left,
            "ending": ~busy | makes.left | pending,
            "one": (probe.final != 3) & ~(probe.final.any() & done.valid),
        }
    )
    streams = checker.streams
    places = {"source": (reads, streams["operands_read"]), "destination": (makes, streams["write"])}
    for name, (walk, port) in places.items():
        chunk, line = walk.unit if walk is reads else walk.unit[words:], parts_of(block)[name]
        held = (line.part == 0) & (line.in_wide == job[f"{name}_wide"])
        checker.lemma(f"{name}_line", ~walk.left | (held & (line.line == _line(job, name, chunk))))
        address = (_line(job, name, chunk) + walk.row)[: len(port.payload.address)]
        same = (port.payload.address == address) & (port.payload.wide == job[f"{name}_wide"])
        checker.rule(f"{name}_in_order", ~port.valid | (walk.left & same & (port.payload.part == 0)))
    checker.rule("operation_taken", streams["operation"].ready == ~busy)
    checker.rule("sides", ~norm.i.valid | ~takes.left | (norm.i.payload.side == (takes.row >= job.rows)))
    behind = ~(reads.left | takes.left | makes.left) & (owed == 0) & ~streams["write"].valid
    checker.rule("done_behind", ~done.valid | (busy & behind))
    _results(checker, norm, makes, made, begin, busy)


def _line(job: Any, name: str, chunk: Value) -> Value:
    """Memory address of a chunk in an operation's first row, for at most two chunks a row."""
    return (job[name] + Mux(chunk, job.stride, 0))[: len(job[name])]


def _norm(checker: Checker, norm: Any, takes: _Walk, makes: _Walk, taken: Value, made: Value) -> tuple[Signal, Signal]:
    """Assume the norm's contract; return whether the norm has its operation, and the number of words inside it."""
    accepted, inside = Signal(name="told"), Signal(range(norm.spec.words * 4 + 1), name="inside")
    begins = norm.operation.valid & norm.operation.ready
    checker.m.d.sync += inside.eq(inside + taken - made)
    with checker.m.If(begins):
        checker.m.d.sync += accepted.eq(1)
    with checker.m.Elif(checker.moves("operation")):
        checker.m.d.sync += accepted.eq(0)
    checker.assume(~norm.i.ready | (accepted & takes.left))
    checker.assume(~norm.o.valid | (accepted & makes.left & (inside != 0) & (norm.o.payload.last == makes.ends)))
    waits, before = Signal(name="o_waits"), Signal.like(Value.cast(norm.o.payload), name="o_before")
    checker.m.d.sync += [waits.eq(norm.o.valid & ~norm.o.ready), before.eq(norm.o.payload)]
    checker.assume(~waits | (norm.o.valid & (Value.cast(norm.o.payload) == before)))
    return accepted, inside


def _results(checker: Checker, norm: Any, makes: _Walk, made: Value, begin: Value, busy: Value) -> None:
    """Prove a chunk's words, the zeros after its features, and the clip count in `done`."""
    m, result, write, done = checker.m, norm.o.payload, checker.streams["write"], checker.streams["done"]
    value, lanes = Value.cast(write.payload.value), norm.spec.lanes
    narrow = Value.cast(result.value)
    size, width = len(narrow) // lanes, len(value) // (2 * lanes)
    word = Cat(_extended(narrow.word_select(at, size), width) for at in range(lanes))
    stored, second, probe = Signal(len(word), name="kept"), makes.unit[0], probe_of(checker.block)
    with m.If(made):
        m.d.sync += stored.eq(word)
    checker.lemma("word_kept", ~(makes.left & second) | (probe.held[0] == stored))
    checker.rule("write_value", ~write.valid | (value == Mux(second, Cat(stored, word), word)))
    clipped, marks = Signal.like(done.payload.clipped, name="clipped"), Cat(result.clipped, result.clipped_scaled)
    m.d.sync += clipped.eq(Mux(begin, 0, clipped + Mux(made, sum(marks), 0)))
    checker.lemmas_together(
        {
            "counted": ~busy | (clipped == (done.payload.clipped + probe.marked)[: len(clipped)]),
            "all_counted": ~(probe.final[1] | done.valid) | (probe.marked == 0),
        }
    )
    checker.rule("done_clipped", ~done.valid | (done.payload.clipped == clipped))


def _extended(value: Value, width: int) -> Value:
    return Cat(value, value[-1].replicate(width - len(value)))
