"""Chunks from the activation memory as words of a few values, behind a queue with room for all that is asked for."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...primitives.fifo import Fifo
from ...primitives.mux_tree import mux_tree
from ...primitives.registers import replicas
from ...probe import probe


class ChunkWords(wiring.Component):
    """A word a cycle; four cycles from a chunk to its first word.

    Parameters
    ----------
    width : int
        Bits of a word.
    words : int
        Words of a chunk, a power of two.
    depth : int
        Words of the queue, a power of two and at least those of a chunk.

    Attributes
    ----------
    asked : In(1)
        A chunk is asked for. Only while there is `room`.
    room : Out(1)
        The queue has a place for each word of a further chunk.
    i : In, stream of ``words * width`` bits
        Chunks, the first word lowest. One that was asked for waits for those before it only.
    o : Out, stream of `width` bits
        Their words.
    """

    def __init__(self, width: int, words: int, depth: int) -> None:
        self._width, self._words, self._depth = width, words, depth
        super().__init__(
            {
                "asked": In(1),
                "room": Out(1),
                "i": In(stream.Signature(width * words)),
                "o": Out(stream.Signature(width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = Fifo(self._width, self._depth)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        chunk, full = Signal(self._width * self._words, reset_less=True), Signal()
        word = Signal(range(self._words))
        owed, takes = Signal(range(self._depth // self._words + 1)), Signal()
        # it has a word behind the present one: for the handshake, and for the chunk's registers
        stays, keeps = replicas(2, "stays")
        m.d.comb += [
            # always taken: there is a place for each word that was asked for
            queue.i.valid.eq(full),
            queue.i.payload.eq(mux_tree(word, [chunk.word_select(at, self._width) for at in range(self._words)])),
            self.i.ready.eq(owed.any() & ~stays),
            takes.eq(self.i.valid & self.i.ready),
        ]
        with m.If(full):
            m.d.sync += word.eq(word + 1)
        with m.If(~keeps):
            m.d.sync += chunk.eq(self.i.payload)
        with m.If(~stays):
            m.d.sync += full.eq(takes)
        if self._words > 1:
            m.d.sync += [flag.eq(Mux(stays, word != self._words - 2, takes)) for flag in (stays, keeps)]
        m.d.sync += owed.eq(owed + self.asked - takes)
        places = Signal(range(self._depth + 1), init=self._depth)
        m.d.comb += self.room.eq(places >= self._words)
        m.d.sync += places.eq(places + (self.o.valid & self.o.ready) - Mux(self.asked, self._words, 0))
        probe(self, full=full, word=word, stays=stays, keeps=keeps, places=places)
        return m
