"""Stream FIFO whose `ready` is a register: for what is asked far away whether a word is taken."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..probe import probe
from .fifo import Fifo


class ReadyFifo(wiring.Component):
    """A `Fifo` in front of which words are counted: no logic stands before `i.ready`.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.
    depth : int
        Payloads in the memory, a power of two from 2 up; one more waits in the output register.

    Attributes
    ----------
    i, o : In, Out, streams of the payload
        As those of `Fifo`, cycle by cycle, but that a word waits where the output register alone has a place.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape, self._depth = shape, depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = Fifo(self._shape, self._depth)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        # words in the memory and on offer: while there is a place for one more, the memory has it
        stored, ready = Signal(range(self._depth + 2)), Signal(init=1)
        takes, gives = self.i.valid & ready, self.o.valid & self.o.ready
        full = (stored == self._depth + 1) | (takes & (stored == self._depth))
        m.d.comb += [self.i.ready.eq(ready), words.i.valid.eq(takes), words.i.payload.eq(self.i.payload)]
        m.d.sync += [stored.eq(stored + takes - gives), ready.eq(gives | ~full)]
        probe(self, stored=stored, ready=ready)
        return m
