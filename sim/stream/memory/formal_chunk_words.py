"""Rules of the operand queue: requested chunks are taken, words leave in order, and no overflow."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ....hw.stream.memory.chunk_words import ChunkWords
from ...formal.checker import Checker
from ...formal.inside import parts_of, probe_of

_WORDS, _DEPTH = 2, 4


def part() -> ChunkWords:
    return ChunkWords(1, _WORDS, _DEPTH)


def check(checker: Checker, part: ChunkWords) -> None:
    """Assumes a request only with free space, and a chunk only after its request."""
    m, chunk, taken = checker.m, checker.streams["i"], checker.moves("i")
    outstanding = Signal(range(_DEPTH), name="owed")
    m.d.sync += outstanding.eq(outstanding + part.asked - taken)
    checker.assume(~part.asked | part.room)
    checker.assume(~chunk.valid | outstanding.any())
    words = checker.balance("o", [(taken, _WORDS)], "o", _DEPTH, _WORDS + 4)
    inner = probe_of(part)
    counted = inner.places + words + Mux(outstanding[1], 2 * _WORDS, 0) + Mux(outstanding[0], _WORDS, 0)
    checker.lemma("places_counted", counted == _DEPTH)
    checker.lemma("stays", inner.stays == (inner.full & (inner.word != _WORDS - 1)))
    checker.lemma("keeps", inner.keeps == inner.stays)
    checker.rule("queue_room", ~inner.full | parts_of(part).queue.i.ready)
    checker.passes("i_waits", chunk.valid & ~chunk.ready, _WORDS)
    ahead, inside, word = Signal.like(words, name="ahead"), Signal(name="inside"), Signal(2, name="word")
    checker.ports["choose"] = choose = Signal(name="choose")
    due, leaves = inside & (ahead < _WORDS), checker.moves("o")
    with m.If(taken & choose & ~inside):
        m.d.sync += [inside.eq(1), ahead.eq(words - leaves + _WORDS - 1), word.eq(chunk.payload)]
    with m.Elif(leaves):
        m.d.sync += [ahead.eq(ahead - 1), inside.eq(inside & ahead.any())]
    checker.rule("o_in_order", ~(due & part.o.valid) | (part.o.payload == Mux(ahead == 0, word[1], word[0])))
