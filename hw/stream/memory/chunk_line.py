"""Address counter for the chunks of a value, group by group."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.memory.chunks import ChunkLayout
from ...ports import shape


def chunk_layout(chunks: ChunkLayout) -> data.StructLayout:
    """Layout of a chunk's address: ``wide``, ``address``, ``part``."""
    return data.StructLayout({"wide": 1, "address": shape(chunks.address), "part": shape(chunks.part)})


class ChunkLine(wiring.Component):
    """Step through the groups of a value: ``line`` plus a row number is the address of the row's chunk.

    Attributes
    ----------
    start : In(1)
        Load `base`; the outputs change in the next cycle. Takes precedence over `advance`.
    wide : In(1)
        With `start`: the value is in the wide memory.
    base : In, as wide as an address
        With `start`: address of the first group's first row.
    first_part : In, as wide as a part's number
        With `start`: part of the first group; 0 if the group begins the value, and in the wide memory.
    advance : In(1)
        Go to the next group; the outputs change in the next cycle.
    stride : In, as wide as an address
        Difference between the addresses of two lines, stable from `start` on.
    in_wide : Out(1)
        The value is in the wide memory.
    line : Out, as wide as an address
        Address of the group's first row, modulo the address range.
    part : Out, as wide as a part's number
        Part of a row in which the group lies; 0 in the wide memory.
    """

    def __init__(self, layout: ChunkLayout) -> None:
        self.layout = layout
        address, part = shape(layout.address), shape(layout.part)
        super().__init__(
            {
                "start": In(1),
                "wide": In(1),
                "base": In(address),
                "first_part": In(part),
                "advance": In(1),
                "stride": In(address),
                "in_wide": Out(1),
                "line": Out(address),
                "part": Out(part),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ends = Signal()
        m.d.comb += ends.eq(self.in_wide | (self.part == self.layout.parts - 1))
        with m.If(self.start):
            m.d.sync += [self.line.eq(self.base), self.part.eq(self.first_part), self.in_wide.eq(self.wide)]
        with m.Elif(self.advance):
            with m.If(ends):
                m.d.sync += [self.line.eq(self.line + self.stride), self.part.eq(0)]
            with m.Else():
                m.d.sync += self.part.eq(self.part + 1)
        return m
