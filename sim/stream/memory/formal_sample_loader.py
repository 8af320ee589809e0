"""Rules of `sample_loader`: an operation takes its beats, writes its chunks and is done, no more and no less."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.stream.memory.sample_loader import SampleLoaderSpec, Status
from ....golden.stream.memory.samples import ROW, ROW_BEATS
from ....hw.primitives.mux_tree import mux_tree
from ...formal.checker import Checker

SPEC = SampleLoaderSpec(lanes=8, columns=4, rows=16, wide_rows=8, sums=4)
MOST = 2 * ROW
"""Most values of a token in the proof."""


def check(checker: Checker, spec: SampleLoaderSpec) -> None:
    """Add the rules; tokens and what has moved of one are counted from the words of the streams alone."""
    m, given, status = checker.m, checker.payload("operation"), checker.payload("done").status
    checker.assume(~checker.streams["operation"].valid | (given.features <= MOST))
    starts = checker.moves("operation")
    pending = checker.words("operation", "done", capacity=1)
    checker.takes("operation", pending == 0)
    empty = (given.rows == 0) | (given.features == 0)
    beyond = (Cat(0, given.rows) > given.stride) | (given.rows > spec.sums // 2)
    due = Signal(Status, name="status_due")
    with m.If(starts):
        m.d.sync += due.eq(Mux(empty, Status.EMPTY, Mux(beyond, Status.CAPACITY, Status.LOADED)))
    tokens = Mux(empty | beyond, 0, given.rows)
    last = given.features - 1
    beats = _Tokens(checker, "beats", tokens, [ROW_BEATS * (at + 1) for at in range(MOST // ROW)], last // ROW)
    chunks = [2 * (at + 1) for at in range(MOST // spec.columns)]
    writes = _Tokens(checker, "write", tokens, chunks, last // spec.columns)
    checker.rule("done_early", ~checker.streams["done"].valid | ~(beats.left.any() | writes.left.any()))
    checker.rule("done_status", ~checker.streams["done"].valid | (status == due))
    # what is written is sign-extended
    for column in range(spec.columns):
        value = checker.payload("write").value[column]
        checker.rule(f"write_signed_{column}", value[-4:].all() | ~value[-4:].any())
    # beats wait for two writes of each chunk at most
    checker.progress(2 * spec.unit // spec.columns + spec.latency)


class _Tokens:
    """Tokens of which words are still to move on a stream; a token has so many words, chosen by an index."""

    def __init__(self, checker: Checker, name: str, tokens: Value, sizes: list[int], index: Value) -> None:
        m, moves = checker.m, checker.moves(name)
        self.left = Signal(range(SPEC.sums // 2 + 1), name=f"{name}_tokens")
        word, size = (Signal(range(max(sizes) + 1), name=f"{name}_{kind}") for kind in ("word", "size"))
        ends = word == size - 1
        with m.If(checker.moves("operation")):
            chosen = index[: (len(sizes) - 1).bit_length()]
            m.d.sync += [self.left.eq(tokens), word.eq(0), size.eq(mux_tree(chosen, sizes))]
        with m.Elif(moves):
            m.d.sync += [word.eq(Mux(ends, 0, word + 1)), self.left.eq(self.left - ends)]
        checker.rule(f"{name}_made", ~moves | (self.left != 0))
