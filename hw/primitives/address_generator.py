"""Where the n-th of things of one size lies."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import delayed


class AddressGenerator(wiring.Component):
    """A multiplication at a time, in a DSP with its registers.

    Attributes
    ----------
    start, number, stride, origin
        Looks for ``origin + number * stride``.
    done, address
        It is there, from `LATENCY` cycles after `start` on until the next.
    """

    LATENCY = 3

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "number": In(24),
                "stride": In(18),
                "origin": In(32),
                "done": Out(1),
                "address": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, stride, origin = Signal.like(self.number), Signal.like(self.stride), Signal.like(self.origin)
        product = Signal(len(number) + len(stride))
        found = delayed(m, self.start, self.LATENCY - 1, "found")
        with m.If(self.start):
            m.d.sync += [number.eq(self.number), stride.eq(self.stride), origin.eq(self.origin), self.done.eq(0)]
        with m.Elif(found):
            m.d.sync += self.done.eq(1)
        m.d.sync += [product.eq(number * stride), self.address.eq(origin + product)]
        return m
