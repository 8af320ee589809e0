"""Rules of `sample_loader`: an operation takes its beats, writes its chunks and is done, no more and no less."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal

from ....golden.stream.memory.sample_loader import SampleLoaderSpec, Status
from ....golden.stream.memory.samples import ROW, ROW_BEATS
from ...formal.checker import Checker

SPEC = SampleLoaderSpec(lanes=8, columns=4, rows=16, wide_rows=8, sums=4)
MOST = 2 * ROW
"""Most values of a token in the proof."""


def check(checker: Checker, spec: SampleLoaderSpec) -> None:
    """Add the rules."""
    m, given, status = checker.m, checker.payload("operation"), checker.payload("done").status
    checker.assume(~checker.streams["operation"].valid | (given.features <= MOST))
    starts, ends = checker.moves("operation"), checker.moves("done")
    pending = checker.words("operation", "done", capacity=1)
    checker.takes("operation", pending == 0)
    empty = (given.rows == 0) | (given.features == 0)
    beyond = (Cat(0, given.rows) > given.stride) | (given.rows > spec.sums // 2)
    due = Signal(Status, name="status_due")
    most = ROW_BEATS * MOST // ROW * spec.sums, 2 * MOST // spec.columns * spec.sums
    beats, writes = (Signal(range(one + 1), name=name) for one, name in zip(most, ("beats", "writes"), strict=True))
    rows = (given.features + ROW - 1) // ROW * ROW_BEATS * given.rows
    chunks = (given.features + spec.columns - 1) // spec.columns * 2 * given.rows
    m.d.sync += [beats.eq(beats - checker.moves("beats")), writes.eq(writes - checker.moves("write"))]
    with m.If(starts):
        m.d.sync += due.eq(Mux(empty, Status.EMPTY, Mux(beyond, Status.CAPACITY, Status.LOADED)))
        m.d.sync += [beats.eq(Mux(empty | beyond, 0, rows)), writes.eq(Mux(empty | beyond, 0, chunks))]
    checker.rule("beats_made", ~checker.moves("beats") | (beats != 0))
    checker.rule("write_made", ~checker.streams["write"].valid | (writes != 0))
    checker.rule("done_early", ~checker.streams["done"].valid | ((beats == 0) & (writes == 0) & (status == due)))
    checker.rule("done_once", ~ends | (pending == 1))
    # what is written is sign-extended
    for column in range(spec.columns):
        value = checker.payload("write").value[column]
        checker.rule(f"write_signed_{column}", value[-4:].all() | ~value[-4:].any())
    # beats wait for two writes of each chunk at most
    checker.progress(2 * spec.unit // spec.columns + spec.latency)
