"""The one way to lose bits in hardware: round half to even, saturate, and say so (`golden.fixed.narrow`)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Format


def saturate(value: Signal, width: int) -> Value:
    """A signed number in fewer bits, at the end of their range where it lies beyond."""
    top = value[width - 1 :]
    end = Cat((~value[-1]).replicate(width - 1), value[-1])
    return Mux(~top.any() | top.all(), value[:width], end).as_signed()


class RoundSaturate(wiring.Component):
    """Three registers deep, one number a cycle, no handshake.

    Parameters
    ----------
    width : int
        Bits of the signed input.
    drop : int
        Fraction bits that it has more than the target; at least 1.
    target : Format
    """

    LATENCY = 3

    def __init__(self, width: int, drop: int, target: Format) -> None:
        self.drop, self.target = drop, target
        super().__init__({"i": In(signed(width)), "o": Out(signed(target.width)), "clipped": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = self.i[self.drop :].as_signed()
        floor, half, rest, odd = Signal.like(kept), Signal(), Signal(), Signal()
        m.d.sync += [
            floor.eq(kept),
            half.eq(self.i[self.drop - 1]),
            rest.eq(self.i[: self.drop - 1].any()),
            odd.eq(kept[0]),
        ]
        rounded = Signal(signed(len(kept) + 1))
        m.d.sync += rounded.eq(floor + Cat(half & (rest | odd), 0).as_signed())
        top = rounded[self.target.width - 1 :]
        fits = (top == 0) | top.all()
        negative = rounded[-1]
        end = Cat((~negative).replicate(self.target.width - 1), negative)
        m.d.sync += [self.o.eq(Mux(fits, rounded[: self.target.width], end)), self.clipped.eq(~fits)]
        return m
