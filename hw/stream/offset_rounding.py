"""Rounding of an offset: from the deltas' fraction to a tensor's, which is chosen number by number."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.stream.word_offsets import MOST_FRACTION, OFFSET
from ...golden.zo.deltas import DELTA
from ..primitives.rounding import RoundSaturate, saturate

_DROPPED = DELTA.fraction - MOST_FRACTION
"""Bits that are rounded off whatever the fraction: all but the highest of them only say whether there was a rest."""


class OffsetRounding(wiring.Component):
    """Clip a sum to the deltas' range, shift it to a fraction, and round half to even; a number a cycle.

    Parameters
    ----------
    width : int
        Bits of a sum.

    Attributes
    ----------
    total : In, signed
        With the fraction of `DELTA`.
    overflow : Out, 1
        The sum is beyond `DELTA`; combinational.
    places : In, range(MOST_FRACTION + 1)
        Fraction bits that the offset has less than `MOST_FRACTION`, `PLACES` cycles after the sum.
    o : Out, signed, `OFFSET`
        `LATENCY` cycles after the sum; where it does not fit, the nearest number.
    """

    PLACES = 1
    LATENCY = PLACES + 1 + RoundSaturate.LATENCY

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                "total": In(signed(width)),
                "overflow": Out(1),
                "places": In(unsigned(MOST_FRACTION.bit_length())),
                "o": Out(signed(OFFSET.width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rest = _DROPPED - 1
        short = Signal(signed(self.width - rest + 1))
        m.d.comb += short.eq(Cat(self.total[:rest].any(), self.total[rest:]))
        above = self.total[DELTA.width - 1 :]
        m.d.comb += self.overflow.eq(above.any() & ~above.all())
        clipped = Signal(signed(DELTA.width - rest + 1), reset_less=True)
        shifted = Signal.like(clipped)
        m.d.sync += [clipped.eq(saturate(short, len(clipped))), shifted.eq(_shifted(m, clipped, self.places))]
        m.submodules.rounding = rounding = RoundSaturate(len(shifted), len(shifted) - OFFSET.width, OFFSET)
        m.d.comb += [rounding.i.eq(shifted), self.o.eq(rounding.o)]
        return m


def _shifted(m: Module, value: Signal, places: Value) -> Value:
    """Shift a signed number to the right; its lowest bit stays set if a bit that is lost was."""
    for number, bit in enumerate(places):
        distance = 1 << number
        moved = Cat(value[: distance + 1].any(), value[distance + 1 :], value[-1].replicate(distance))
        # a signal, as the next step reads it in many places
        before, value = value, Signal.like(value, name=f"shifted_{distance}")
        m.d.comb += value.eq(Mux(bit, moved, before))
    return value
