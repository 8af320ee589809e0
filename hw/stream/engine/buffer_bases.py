"""Addresses of the first rows of values: rows for each token times the tokens that the buffers hold, in one DSP."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.instruction import ROW_BITS
from ....golden.stream.memory.chunks import ChunkLayout
from ...ports import shape
from ...primitives.pipeline import delayed

BUFFERS = ("source", "second", "third", "other", "destination")
"""Fields of an instruction that are buffers."""


class BufferBases(wiring.Component):
    """Multiply the first rows of all buffers of an instruction, one a cycle.

    Parameters
    ----------
    chunks : ChunkLayout

    Attributes
    ----------
    start : In(1)
        Begin. `buffers` and `capacity` stay until `done`.
    buffers : In, 24 bits each
        As an instruction has them, in the order of `BUFFERS`.
    capacity : In(16)
        Tokens of all sides that are in the buffers at once.
    wide, base : Out, a bit and an address each
        Memory of each buffer, and address of its first row. They stay until the next `start`.
    done : Out(1)
        All are there; one cycle, ``len(BUFFERS) + 2`` behind `start`.
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
        arrives, place = delayed(m, running, 2, "arrives"), delayed(m, number, 2, "place", reset_less=True)
        with m.If(arrives), m.Switch(place):
            for at in range(len(BUFFERS)):
                with m.Case(at):
                    m.d.sync += [self.base[at].eq(product), self.wide[at].eq(self.buffers[at][ROW_BITS])]
        m.d.sync += self.done.eq(delayed(m, final, 2, "over"))
        return m
