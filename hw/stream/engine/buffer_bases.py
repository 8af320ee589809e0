"""Base addresses of an instruction's buffers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.instruction import ROW_BITS
from ....golden.stream.memory.chunks import ChunkLayout
from ...ports import shape
from ...primitives.pipeline import delayed

BUFFERS = ("source", "second", "third", "other", "destination")
"""Buffer fields of an instruction."""


class BufferBases(wiring.Component):
    """Multiply the first row of each of an instruction's buffers by the capacity, a buffer a cycle.

    Attributes
    ----------
    start : In(1)
        Begin; one cycle. `buffers` and `capacity` must stay stable until `done`.
    buffers : In, 24 bits each
        Buffer fields of the instruction, in the order of `BUFFERS`.
    capacity : In(16)
        Number of tokens in the buffers at once, both signs together.
    wide, base : Out, a bit and an address each
        Memory select and base address of each buffer, stable until the next `start`.
    done : Out(1)
        All outputs are valid; one cycle, ``len(BUFFERS) + 2`` cycles after `start`.
    """

    def __init__(self, chunks: ChunkLayout) -> None:
        count = len(BUFFERS)
        super().__init__(
            {
                "start": In(1),
                "buffers": In(data.ArrayLayout(ROW_BITS + 1, count)),
                "capacity": In(16),
                "wide": Out(count),
                "base": Out(data.ArrayLayout(shape(chunks.address), count)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = len(self.base[0])
        number, running = Signal(range(len(BUFFERS))), Signal()
        first, product = Signal(bits, reset_less=True), Signal(bits, reset_less=True)
        capacity = Signal(min(bits, len(self.capacity)), reset_less=True)
        final = running & (number == len(BUFFERS) - 1)
        m.d.sync += [
            running.eq(self.start | (running & ~final)),
            number.eq(Mux(final, 0, number + running)),
            first.eq(self.buffers[number][:bits]),
            capacity.eq(self.capacity),
            product.eq(first * capacity),
        ]
        arrives, index = delayed(m, running, 2, "arrives"), delayed(m, number, 2, "index", reset_less=True)
        with m.If(arrives), m.Switch(index):
            for buffer in range(len(BUFFERS)):
                with m.Case(buffer):
                    m.d.sync += [self.base[buffer].eq(product), self.wide[buffer].eq(self.buffers[buffer][ROW_BITS])]
        m.d.sync += self.done.eq(delayed(m, final, 2, "over"))
        return m
