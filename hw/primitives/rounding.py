"""Narrowing of signed numbers, as in `golden.fixed.narrow`."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Format
from .registers import data_register


def saturate(value: Signal, width: int) -> Value:
    """Saturate a signed number of at least `width` bits to `width` bits, combinationally."""
    return Mux(_fits(value, width), value[:width], _end(value, width)).as_signed()


def _fits(value: Signal, width: int) -> Value:
    above = value[width - 1 :]
    return ~above.any() | above.all()


def _end(value: Signal, width: int) -> Value:
    """Largest or smallest number of `width` bits, by the sign of `value`."""
    return Cat((~value[-1]).replicate(width - 1), value[-1])


def saturate_to(value: Signal, widths: Mapping[int, Value]) -> tuple[Value, Value]:
    """Saturate a signed number to a selected number of bits, combinationally.

    Parameters
    ----------
    value : Signal
        Number, interpreted as signed, with more bits than the widest result.
    widths : mapping of int to Value
        Condition that selects each number of bits; exactly one must hold.

    Returns
    -------
    (Value, Value)
        The number, sign-extended to the widest result, and a flag: clipped.
    """
    widest = max(widths)
    beyond = Cat(condition & ~_fits(value, width) for width, condition in widths.items()).any()
    # saturated: all bits below the sign position are the inverted sign
    below = Cat(
        Cat(condition for width, condition in widths.items() if width > bit + 1).any() for bit in range(widest - 1)
    )
    end = Cat(Mux(value[-1], ~below, below), value[-1])
    return Mux(beyond, end, value[:widest]).as_signed(), beyond


class RoundSaturate(wiring.Component):
    """Round half to even and saturate, a number a cycle, without handshake.

    Parameters
    ----------
    drop : int
        Number of fraction bits to round off, at least 1.

    Attributes
    ----------
    i : In(signed(width))
        Number to narrow, with ``target.fraction + drop`` fraction bits. Sampled in every cycle.
    o : Out(signed(target.width))
        Result in the target's format, registered, `LATENCY` cycles after `i`.
    clipped : Out(1)
        With `o`: the rounded number was saturated.
    """

    LATENCY = 3

    def __init__(self, width: int, drop: int, target: Format) -> None:
        self.drop, self.target = drop, target
        super().__init__({"i": In(signed(width)), "o": Out(signed(target.width)), "clipped": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        integer = self.i[self.drop :].as_signed()
        floor = Signal.like(integer, reset_less=True)
        half, rest, odd = (Signal(name=name, reset_less=True) for name in ("half", "rest", "odd"))
        m.d.sync += [
            floor.eq(integer),
            half.eq(self.i[self.drop - 1]),
            rest.eq(self.i[: self.drop - 1].any()),
            odd.eq(integer[0]),
        ]
        rounded = Signal(signed(len(integer) + 1), reset_less=True)
        m.d.sync += rounded.eq(floor + Cat(half & (rest | odd), 0).as_signed())
        width = self.target.width
        m.d.sync += [
            data_register(m, self.o).eq(saturate(rounded, width)),
            data_register(m, self.clipped).eq(~_fits(rounded, width)),
        ]
        return m


class NoiseSaturate(wiring.Component):
    """Round with random numbers and saturate, a number a cycle, without handshake.

    Attributes
    ----------
    i, o, clipped
        As in `RoundSaturate`, with the same latency.
    noise : In(noise)
        Random number for `i`, of fewer than `drop` bits. It is added below the target's fraction, left-aligned and
        followed by a bit 1.
    """

    LATENCY = RoundSaturate.LATENCY

    def __init__(self, width: int, drop: int, noise: int, target: Format) -> None:
        self.drop, self.target = drop, target
        super().__init__(
            {"i": In(signed(width)), "noise": In(noise), "o": Out(signed(target.width)), "clipped": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # bits below the random number cannot change the result
        odd = Cat(1, self.noise)
        below = self.drop - len(odd)
        upper, added = Signal(signed(len(self.i) - below), reset_less=True), Signal.like(odd, reset_less=True)
        m.d.sync += [upper.eq(self.i[below:]), added.eq(odd)]
        total = Signal(signed(len(upper) + 1), reset_less=True)
        m.d.sync += total.eq(upper + Cat(added, 0).as_signed())
        rounded = Signal(signed(len(total) - len(odd)))
        m.d.comb += rounded.eq(total[len(odd) :])
        width = self.target.width
        m.d.sync += [
            data_register(m, self.o).eq(saturate(rounded, width)),
            data_register(m, self.clipped).eq(~_fits(rounded, width)),
        ]
        return m
