"""Stream FIFO with a registered `ready`, for distant producers."""

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..probe import probe
from .fifo import Fifo


class ReadyFifo(wiring.Component):
    """A `Fifo` with a word counter in front, so that `i.ready` is a register's output.

    Parameters and timing are as in `Fifo`, except that `i.ready` is low if only the output register is free.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape, self._depth = shape, depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = Fifo(self._shape, self._depth)
        wiring.connect(m, words.o, wiring.flipped(self.o))
        # number of words in memory and output register; below the limit the memory has space
        stored, ready = Signal(range(self._depth + 2)), Signal(init=1)
        takes, gives = self.i.valid & ready, self.o.valid & self.o.ready
        full = (stored == self._depth + 1) | (takes & (stored == self._depth))
        m.d.comb += [self.i.ready.eq(ready), words.i.valid.eq(takes), words.i.payload.eq(self.i.payload)]
        m.d.sync += [stored.eq(stored + takes - gives), ready.eq(gives | ~full)]
        probe(self, stored=stored, ready=ready)
        return m
