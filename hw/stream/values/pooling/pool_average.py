"""RTL of token averages, one quotient bit a cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .....golden.stream.norms import Q11_16
from ....ports import shape
from ....primitives.registers import register

_WIDTH = Q11_16.width


class PoolAverage(wiring.Component):
    """Sum chunks of values, then divide each sum by the number of chunks, in the sum's register.

    Values are stored with the sign bit inverted, so sums are unsigned and quotients are offset by half the range.
    During the division the register holds quotient bits at the bottom and the remainder, below the count, at the top.

    Attributes
    ----------
    value : In, array of Q11.16
        A chunk.
    add, first : In(1)
        Add the chunk to the sum; with `first` the sum begins at 0.
    divide : In(1)
        Compute the next quotient bit; `STEPS` cycles in total, never together with `add`.
    round : In(1)
        Round to nearest, ties to even, by the remainder; two cycles after the last `divide`.
    count : In(range(longest + 1))
        Number of chunks in the sum, stable from a cycle before `divide` until `round`.
    o : Out, array of Q11.16
        Quotients; before a division the sum, if it is a single chunk.
    """

    STEPS = _WIDTH

    def __init__(self, columns: int, longest: int) -> None:
        self.columns, self.longest = columns, longest
        array = data.ArrayLayout(shape(Q11_16), columns)
        flags = {name: In(1) for name in ("add", "first", "divide", "round")}
        super().__init__({"value": In(array), **flags, "count": In(range(longest + 1)), "o": Out(array)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = register(m, "divisor", self.count)
        for number in range(self.columns):
            total = Signal(_WIDTH + (self.longest - 1).bit_length(), name=f"total{number}", reset_less=True)
            value, low, remainder = self.value[number], total[:_WIDTH], total[_WIDTH:]
            partial = Cat(low[-1], remainder)
            difference = Signal(len(count) + 2, name=f"difference{number}")
            m.d.comb += difference.eq(partial - count)
            fits = ~difference[-1]
            round_up = register(m, f"round_up{number}", Cat(low[0], remainder) > count)
            addend = Mux(self.round, round_up, Cat(value[:-1], ~value[-1]))
            with m.If(self.divide):
                m.d.sync += total.eq(Cat(fits, low[:-1], Mux(fits, difference, partial)[: len(remainder)]))
            with m.Elif(self.add | self.round):
                m.d.sync += total.eq(Mux(self.first, 0, total) + addend)
            m.d.comb += self.o[number].eq(Cat(low[:-1], ~low[-1]))
        return m
