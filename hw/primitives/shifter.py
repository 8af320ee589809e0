"""Barrel shifters: to the left, of any number; to the right with rounding half to even and saturation."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Format
from .rounding import RoundSaturate

_BITS_A_STAGE = 2
"""Bits of the places that a stage shifts by: a LUT selects one of four bits."""
_BELOW = 2
"""Bits below the number: the first one dropped, and whether a further one was 1."""


def shift_left(value: Value, places: Value) -> Value:
    """Shift a signed number to the left, combinationally, by a multiplexer a bit of the places: no bit is lost."""
    for number, bit in enumerate(places):
        value = Mux(bit, Cat(Const(0, 1 << number), value).as_signed(), value)
    return value


class RoundingShifter(wiring.Component):
    """Shift to the right, round half to even and saturate, one number a cycle, without handshake.

    As `golden.fixed.shifted` with places that are not negative, and then `golden.fixed.narrow`.

    Parameters
    ----------
    width : int
        Bits of the signed input.
    most : int
        Largest number of places.
    target : Format
        Format of the result, of which only the width counts.
    least : int
        Smallest number of places.

    Attributes
    ----------
    i : In(signed(width))
        Number to shift. Sampled in every cycle.
    places : In(range(most - least + 1))
        Bits to drop beyond `least`. In the cycle of its `i`.
    o : Out(signed(target.width))
        The shifted number, rounded and saturated. Registered; `latency` cycles after its `i`.
    clipped : Out(1)
        High where `o` is an end of the range because the rounded number was beyond it. In the cycle of `o`.
    """

    def __init__(self, width: int, most: int, target: Format, least: int = 0) -> None:
        self._most, self.target, self.least = most, target, least
        super().__init__(
            {
                "i": In(signed(width)),
                "places": In(range(most - least + 1)),
                "o": Out(signed(target.width)),
                "clipped": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from `i` to `o`: a stage for two bits of the places, rounding 3."""
        return self.latency_of(self._most - self.least)

    @staticmethod
    def latency_of(most: int) -> int:
        """Cycles for a largest number of places."""
        return -(-most.bit_length() // _BITS_A_STAGE) + RoundSaturate.LATENCY

    def elaborate(self, platform: object) -> Module:
        m = Module()
        above = Cat(Const(0, _BELOW), self.i)
        value: Value = Cat(above[: self.least + 1].any(), above[self.least + 1 :])
        places: Value = self.places
        number = 0
        while len(places):
            shifted = Signal(len(value), name=f"shifted_{number}", reset_less=True)
            m.d.sync += shifted.eq(_stage(value, places[:_BITS_A_STAGE], number))
            value = shifted
            rest = Signal(len(places[_BITS_A_STAGE:]), name=f"places_{number}", reset_less=True)
            m.d.sync += rest.eq(places[_BITS_A_STAGE:])
            places, number = rest, number + _BITS_A_STAGE
        m.submodules.rounding = rounding = RoundSaturate(len(value), _BELOW, self.target)
        m.d.comb += [rounding.i.eq(value.as_signed()), self.o.eq(rounding.o), self.clipped.eq(rounding.clipped)]
        return m


def _stage(value: Value, places: Value, first: int) -> Value:
    """Shift by a few bits of the places, of which the lowest counts ``2**first``; the lowest bit is sticky."""
    for number, bit in enumerate(places, start=first):
        step = min(1 << number, len(value) - 1)
        sign = value[-1].replicate(step)
        value = Mux(bit, Cat(value[: step + 1].any(), value[step + 1 :], sign), value)
    return value
