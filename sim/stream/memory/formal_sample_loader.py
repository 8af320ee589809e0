"""Rules of `sample_loader`: an operation takes exactly its beats, writes exactly its chunks, then offers `done`."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import exact_log2

from ....golden.stream.memory.sample_loader import SampleLoaderSpec, Status
from ....golden.stream.memory.samples import ROW, ROW_BEATS
from ....hw.primitives.mux_tree import mux_tree
from ...formal.checker import Checker
from ...formal.inside import probe_of

SPEC = SampleLoaderSpec(lanes=16, columns=16, rows=16, wide_rows=8, sums=4)
MOST = ROW
"""Largest number of features of a token in the proof."""


def check(checker: Checker, spec: SampleLoaderSpec) -> None:
    """Tokens, beats and writes are counted from the stream handshakes alone."""
    m, operation, status = checker.m, checker.payload("operation"), checker.payload("done").status
    checker.assume(~checker.streams["operation"].valid | (operation.features <= MOST))
    starts = checker.moves("operation")
    pending = checker.words("operation", "done", capacity=1)
    checker.takes("operation", pending == 0)
    empty = (operation.rows == 0) | (operation.features == 0)
    beyond = (Cat(0, operation.rows) > operation.stride) | (operation.rows > spec.sums // 2)
    due = Signal(Status, name="status_due")
    with m.If(starts):
        m.d.sync += due.eq(Mux(empty, Status.EMPTY, Mux(beyond, Status.CAPACITY, Status.LOADED)))
    tokens = Mux(empty | beyond, 0, operation.rows)
    last = operation.features - 1
    beats = _Tokens(checker, "beats", tokens, [ROW_BEATS * (at + 1) for at in range(MOST // ROW)], last // ROW)
    chunks = [2 * (at + 1) for at in range(MOST // spec.columns)]
    writes = _Tokens(checker, "write", tokens, chunks, last // spec.columns)
    _aligned(checker, beats, writes)
    for name, tokens_of in (("beats", beats), ("writes", writes)):
        checker.rule(f"done_{name}", ~checker.streams["done"].valid | (tokens_of.left == 0))
    checker.rule("done_status", ~checker.streams["done"].valid | (status == due))
    # written values are sign-extended
    ends = [value[-4:] for value in checker.payload("write").value]
    checker.rule("write_signed", Cat(end.all() | ~end.any() for end in ends).all())
    # a beat waits for at most two writes of each chunk
    checker.progress(2 * spec.unit // spec.columns + spec.latency)


def _aligned(checker: Checker, beats: _Tokens, writes: _Tokens) -> None:
    """Lemmas that relate the counts of beats and writes to the block's counters.

    A unit, here a chunk, is written before the next unit is complete; padding is not written. The block starts to count
    after it has checked the operation.
    """
    inner = probe_of(checker.block)
    begin = inner.state("BEGIN")
    checks = inner.state("CHECK") | begin
    last, row = inner.last, ROW_BEATS * SPEC.unit // ROW
    full, whole = checker.block._full, beats.word >= row
    chunks, written = writes.size[1:], writes.word[1:]
    same = (writes.left == beats.left) & (whole == written + full)
    ahead = (writes.left == beats.left + 1) & full & (written + 1 == chunks) & ~whole
    padding = (writes.left + 1 == beats.left) & ~full & (writes.word == 0) & whole & (chunks == 1)
    checker.lemmas_together(
        {
            "aligned": same | ahead | padding,
            "tokens": inner.tokens == Mux(checks, 0, beats.left),
            "active": inner.active == (~checks & writes.left.any()),
            "size": (beats.left == 0) | ((last < MOST) & (beats.size == 2 * row)),
            "chunks": (writes.left == 0) | ((last < MOST) & (chunks == last[exact_log2(SPEC.columns) :] + 1)),
            "beat": beats.word == inner.beat + Mux((inner.tokens != 0) & (inner.units == 0), row, 0),
            "beat_least": inner.beat < row,
            "units": (inner.tokens == 0) | (inner.units <= 1),
            "ends": (inner.tokens == 0) | (inner.ends == (inner.units == 0)),
            "more": inner.more == inner.tokens.any(),
            "loads": ~begin | ((checker.payload("done").status == Status.LOADED) == beats.left.any()),
            "group": ~inner.active | (written + inner.groups + 1 == chunks),
            "side": writes.word[0] == inner.side,
            "none": inner.active | (writes.word == 0),
            "rows": ~inner.active | (inner.plus + writes.left == inner.rows),
            "some": inner.active | ~full,
        }
    )


class _Tokens:
    """Counts tokens with words still to move on a stream; `index` selects the words per token from `sizes`."""

    def __init__(self, checker: Checker, name: str, tokens: Value, sizes: list[int], index: Value) -> None:
        m, moves = checker.m, checker.moves(name)
        self.left = Signal(range(SPEC.sums // 2 + 1), name=f"{name}_tokens")
        self.word, self.size = word, size = [
            Signal(range(max(sizes) + 1), name=f"{name}_{kind}") for kind in ("word", "size")
        ]
        ends = word == size - 1
        with m.If(checker.moves("operation")):
            chosen = index[: (len(sizes) - 1).bit_length()]
            m.d.sync += [self.left.eq(tokens), word.eq(0), size.eq(mux_tree(chosen, sizes))]
        with m.Elif(moves):
            m.d.sync += [word.eq(Mux(ends, 0, word + 1)), self.left.eq(self.left - ends)]
        checker.rule(f"{name}_made", ~moves | (self.left != 0))
