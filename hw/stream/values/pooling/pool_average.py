"""RTL of sums of tokens and their division by the number of tokens, a bit of all quotients a cycle."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .....golden.stream.norms import Q11_16
from ....ports import shape
from ....primitives.registers import register

_WIDTH = Q11_16.width


class PoolAverage(wiring.Component):
    """Sum chunks, then divide the sums by their number in place.

    A value has its highest bit inverted, so that a sum is not negative, and the quotient is ahead by the same half of
    its range. A register has the quotient's bits below, and above them the rest, which is less than the number.

    Parameters
    ----------
    columns : int
        Values of a chunk.
    longest : int
        Most chunks of a sum.

    Attributes
    ----------
    value : In, array of Q11.16
        A chunk.
    add, first : In(1)
        Add it; to 0 where `first`.
    divide : In(1)
        Compute the next bit of the quotients, in `STEPS` cycles; not beside `add`.
    round : In(1)
        Round them by what is left of the division, to the nearest, ties to even; two cycles after the last `divide`.
    count : In(range(longest + 1))
        Chunks of the sum. It stays from a cycle before `divide` to `round`.
    o : Out, array of Q11.16
        The value that was added alone, or the quotients.
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
            value, low, rest = self.value[number], total[:_WIDTH], total[_WIDTH:]
            longer = Cat(low[-1], rest)
            less = Signal(len(count) + 2, name=f"less{number}")
            m.d.comb += less.eq(longer - count)
            fits = ~less[-1]
            up = register(m, f"up{number}", Cat(low[0], rest) > count)
            addend = Mux(self.round, up, Cat(value[:-1], ~value[-1]))
            with m.If(self.divide):
                m.d.sync += total.eq(Cat(fits, low[:-1], Mux(fits, less, longer)[: len(rest)]))
            with m.Elif(self.add | self.round):
                m.d.sync += total.eq(Mux(self.first, 0, total) + addend)
            m.d.comb += self.o[number].eq(Cat(low[:-1], ~low[-1]))
        return m
