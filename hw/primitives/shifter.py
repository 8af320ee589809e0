"""Barrel shifters, left and right."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Format
from .rounding import RoundSaturate

_BITS_A_STAGE = 2
"""Number of shift bits in a stage, as a LUT selects one of four bits."""
_BELOW = 2
"""Number of bits kept below the result: the highest dropped bit, and a sticky bit."""


def shift_left(value: Value, places: Value) -> Value:
    """Shift a signed number left by `places`, without loss, combinationally, with a multiplexer per bit of `places`."""
    for number, bit in enumerate(places):
        value = Mux(bit, Cat(Const(0, 1 << number), value).as_signed(), value)
    return value


class RoundingShifter(wiring.Component):
    """Shift right, round half to even and saturate, a number a cycle, without handshake.

    Equivalent to `golden.fixed.shifted` with non-negative places, then `golden.fixed.narrow`.

    Parameters
    ----------
    most : int
        Largest number of places.
    target : Format
        Format of the result; only the width matters.
    least : int
        Smallest number of places.

    Attributes
    ----------
    i : In(signed(width))
        Number to shift. Sampled in every cycle.
    places : In(range(most - least + 1))
        With `i`: number of bits to drop, minus `least`.
    o : Out(signed(target.width))
        Rounded and saturated result, registered, `latency` cycles after `i`.
    clipped : Out(1)
        With `o`: the rounded number was saturated.
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
        """Cycles from `i` to `o`: a stage per two bits of `places`, then 3 for rounding."""
        return self.latency_of(self._most - self.least)

    @staticmethod
    def latency_of(most: int) -> int:
        """Latency for a range of `most` places."""
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
    """Shift right by some bits of the places, the first of weight ``2**first``; the result's lowest bit is sticky."""
    for number, bit in enumerate(places, start=first):
        step = min(1 << number, len(value) - 1)
        sign = value[-1].replicate(step)
        value = Mux(bit, Cat(value[: step + 1].any(), value[step + 1 :], sign), value)
    return value
