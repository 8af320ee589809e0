"""Rules of `attention_sequencer`: whole tiles and chunks, exact counts, a `done` for each operation, and no hang.

The rules only count words of streams; the bench compares the read addresses with the golden model.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

SPEC = AttentionSequencerSpec(lanes=8, columns=4, exponentials=2, queries=2, keys=8, rows=16, wide_rows=2, sums=4)
_GROUPS = 2
"""Largest number of column groups per head, an assumption."""


def check(checker: Checker, spec: AttentionSequencerSpec) -> None:
    """Assumes operations within the contract, with narrow heads and sentences of 1 to `keys` tokens."""
    operation, sentence = checker.payload("operation"), checker.payload("sentences")
    widths = [spec.columns * groups for groups in range(1, _GROUPS + 1)]
    checker.assume((operation.heads != 0) & (operation.key_heads != 0) & (operation.sentences != 0))
    checker.assume(operation.width.matches(*widths) & (sentence.length != 0) & (sentence.length <= spec.keys))
    # the next operation may be accepted while the previous `done` is still offered
    busy = checker.words("operation", "done", 2)
    checker.rule("operation_waits", ~checker.streams["operation"].ready | (busy == 0) | checker.streams["done"].valid)
    _reciprocals(checker)
    _chunks(checker, spec)
    _tiles(checker, spec)
    blocks = parts_of(checker.block).blocks
    inside = probe_of(blocks)
    checker.lemmas_together(
        {
            "groups": inside.state("idle") | (inside.settings.groups < _GROUPS),
            "groups_left": ~inside.state("advance") | (inside.group < _GROUPS),
        }
    )
    checker.progress(16)


def _reciprocals(checker: Checker) -> None:
    """Prove that reciprocals pass combinationally, and only for blocks whose scores were requested."""
    inside = probe_of(checker.block)
    checker.lemma("owes", inside.owes == inside.owed.any())
    inverse, out = checker.streams["inverse"], checker.streams["reciprocals"]
    same = [getattr(inverse.payload, name) == getattr(out.payload, name) for name in ("mantissa", "exponent", "last")]
    checker.rule("reciprocals_same", ~out.valid | (inverse.valid & Cat(same).all()))
    checker.rule("reciprocals_pass", checker.moves("inverse") == checker.moves("reciprocals"))


def _chunks(checker: Checker, spec: AttentionSequencerSpec) -> None:
    """Prove that a chunk holds the received words, and that `done` follows the last write and counts clipped values."""
    m, contexts, write, done = checker.m, checker.payload("contexts"), checker.streams["write"], checker.streams["done"]
    words = spec.columns // spec.exponentials
    word = Signal(range(words), name="word")
    gain, whole = checker.moves("contexts"), word == words - 1
    clipped = Signal.like(done.payload.clipped, name="clipped")
    stored = [Signal(len(Value.cast(contexts.value)), name=f"kept{number}") for number in range(words)]
    with m.If(gain):
        m.d.sync += word.eq(Mux(whole, 0, word + 1))
        for number, into in enumerate(stored):
            with m.If(word == number):
                m.d.sync += into.eq(contexts.value)
    checker.balance("write_words", [(gain & whole, 1)], "write", 1)
    values = [value for packed in stored for value in _parts(packed, spec.exponentials)]
    into = _parts(Value.cast(write.payload.value), spec.columns)
    same = [
        (lane[:24] == value) & (lane[24:] == value[-1].replicate(3)) for lane, value in zip(into, values, strict=True)
    ]
    checker.rule("write_chunk", ~write.valid | (Cat(same).all() & ~write.payload.wide))
    count = sum(Value.cast(contexts.clipped)) if spec.exponentials > 1 else contexts.clipped
    with m.If(checker.moves("operation")):
        m.d.sync += clipped.eq(0)
    with m.Else():
        counted = Mux(checker.moves("inverse"), checker.payload("inverse").clipped, 0)
        m.d.sync += clipped.eq(clipped + Mux(gain, count, 0) + counted)
    inside, parts = probe_of(checker.block), parts_of(checker.block)
    # the count of clipped values starts anew with each operation
    checker.lemma("clipped_inside", ~inside.busy | (clipped == (inside.counted + parts.writer.clipped)[: len(clipped)]))
    checker.lemma("counts_inside", inside.busy | ~(gain | checker.moves("inverse")))
    checker.rule("done_clipped", ~done.valid | inside.busy | (done.payload.clipped == clipped))
    checker.rule("done_behind", ~done.valid | inside.busy | ~write.valid)


def _parts(value: Value, count: int) -> list[Value]:
    width = len(value) // count
    return [value[at * width : (at + 1) * width] for at in range(count)]


def _tiles(checker: Checker, spec: AttentionSequencerSpec) -> None:
    """Prove that a tile's rows agree and are as many as `stationary_load` takes; value rows have no zeroed parts."""
    m, read = checker.m, checker.streams["keys_read"]
    keys = parts_of(checker.block).keys
    inside, line = probe_of(keys), parts_of(keys).line
    number, turn, part = (
        Signal(range(spec.lanes), name="number"),
        Signal(name="tile_turn"),
        Signal.like(read.payload.part, name="tile_part"),
    )
    first = number == 0
    final = number == Mux(read.payload.turn, spec.columns - 1, spec.lanes - 1)
    with m.If(checker.moves("keys_read")):
        m.d.sync += [number.eq(Mux(final, 0, number + 1)), turn.eq(read.payload.turn), part.eq(read.payload.part)]
    row, block = Mux(inside.active, inside.row, 0), inside.block
    size = Mux(block.contexts, spec.lanes, spec.columns)
    holds = {
        "tile_rows": Mux(read.valid, Mux(row == 0, final, row == number + 1), row == number),
        "tile_inside": row < size,
        "tile_ahead": (row == 0) | Mux(read.valid, read.payload.turn != block.contexts, turn != block.contexts),
        "tile_turn": ~read.valid | first | (read.payload.turn == turn),
        "part_ahead": (row == 0) | ~block.contexts | (line.part == Mux(read.valid, read.payload.part, part)),
        "tile_part": ~read.valid | first | read.payload.turn | (read.payload.part == part),
        "number_inside": first | (number < Mux(turn, spec.columns, spec.lanes)),
    }
    checker.lemmas_together(holds)
    checker.rule("tile_zero", ~read.valid | read.payload.turn | (Value.cast(read.payload.zero) == 0))
