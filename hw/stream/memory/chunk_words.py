"""Serialiser of chunks from the activation memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...primitives.fifo import Fifo
from ...primitives.mux_tree import mux_tree
from ...primitives.registers import replicas
from ...probe import probe


class ChunkWords(wiring.Component):
    """Split chunks into words: a word a cycle, the first word four cycles after its chunk.

    Parameters
    ----------
    words : int
        Number of words in a chunk, a power of two.
    depth : int
        Number of words in the queue, a power of two, at least `words`.

    Attributes
    ----------
    asked : In(1)
        A chunk is requested; must be low while `room` is low.
    room : Out(1)
        The queue has space for all words of another chunk.
    i : In, stream of ``words * width`` bits
        Requested chunks, with the first word in the lowest bits. A chunk waits only for earlier chunks.
    o : Out, stream of `width` bits
        Words.
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
        # more words of the chunk follow: a copy for the handshake, a copy for the chunk registers
        stays, keeps = replicas(2, "stays")
        m.d.comb += [
            # always accepted, as `asked` has reserved the space
            queue.i.valid.eq(full),
            queue.i.payload.eq(mux_tree(word, [chunk.word_select(index, self._width) for index in range(self._words)])),
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
