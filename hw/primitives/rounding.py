"""Narrow a signed number: round half to even or with random numbers, saturate, report it: `golden.fixed.narrow`."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Format
from .registers import data_register


def saturate(value: Signal, width: int) -> Value:
    """Bring a signed number into fewer bits, combinationally.

    Parameters
    ----------
    value : Signal
        Taken as signed, at least `width` bits.
    width : int
        Bits of the result.

    Returns
    -------
    Value
        Signed; the nearer end of the range where `value` is beyond it.
    """
    return Mux(_fits(value, width), value[:width], _end(value, width)).as_signed()


def _fits(value: Signal, width: int) -> Value:
    above = value[width - 1 :]
    return ~above.any() | above.all()


def _end(value: Signal, width: int) -> Value:
    """The largest or the smallest number of that many bits, on the side of `value`."""
    return Cat((~value[-1]).replicate(width - 1), value[-1])


def saturate_to(value: Signal, widths: Mapping[int, Value]) -> tuple[Value, Value]:
    """Bring a signed number into as many bits as are chosen, combinationally.

    Parameters
    ----------
    value : Signal
        Taken as signed, more bits than the widest.
    widths : mapping of int to Value
        Conditions by the bits that they choose: one holds.

    Returns
    -------
    (Value, Value)
        As `saturate`, in the widest; whether the number was beyond the range.
    """
    widest = max(widths)
    beyond = Cat(condition & ~_fits(value, width) for width, condition in widths.items()).any()
    # an end has the opposite of the sign in all bits of its width but the highest
    below = Cat(
        Cat(condition for width, condition in widths.items() if width > place + 1).any() for place in range(widest - 1)
    )
    end = Cat(Mux(value[-1], ~below, below), value[-1])
    return Mux(beyond, end, value[:widest]).as_signed(), beyond


class RoundSaturate(wiring.Component):
    """Round half to even and saturate, one number a cycle, without handshake.

    Parameters
    ----------
    width : int
        Bits of the signed input.
    drop : int
        Fraction bits of the input beyond those of the target; at least 1.
    target : Format
        Format of the result.

    Attributes
    ----------
    i : In(signed(width))
        Number to narrow, with ``target.fraction + drop`` fraction bits. Sampled in every cycle.
    o : Out(signed(target.width))
        Narrowed number, in the target's format. Registered; `LATENCY` cycles after its `i`.
    clipped : Out(1)
        High where `o` is an end of the range because the rounded number was beyond it. In the cycle of `o`.
    """

    LATENCY = 3

    def __init__(self, width: int, drop: int, target: Format) -> None:
        self.drop, self.target = drop, target
        super().__init__({"i": In(signed(width)), "o": Out(signed(target.width)), "clipped": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = self.i[self.drop :].as_signed()
        floor = Signal.like(kept, reset_less=True)
        half, rest, odd = (Signal(name=name, reset_less=True) for name in ("half", "rest", "odd"))
        m.d.sync += [
            floor.eq(kept),
            half.eq(self.i[self.drop - 1]),
            rest.eq(self.i[: self.drop - 1].any()),
            odd.eq(kept[0]),
        ]
        rounded = Signal(signed(len(kept) + 1), reset_less=True)
        m.d.sync += rounded.eq(floor + Cat(half & (rest | odd), 0).as_signed())
        width = self.target.width
        m.d.sync += [
            data_register(m, self.o).eq(saturate(rounded, width)),
            data_register(m, self.clipped).eq(~_fits(rounded, width)),
        ]
        return m


class NoiseSaturate(wiring.Component):
    """Round with random numbers and saturate, one number a cycle, without handshake.

    Parameters
    ----------
    width : int
        Bits of the signed input.
    drop : int
        Fraction bits of the input beyond those of the target.
    noise : int
        Bits of a random number, less than `drop`.
    target : Format
        Format of the result.

    Attributes
    ----------
    i : In(signed(width))
        Number to narrow, with ``target.fraction + drop`` fraction bits. Sampled in every cycle.
    noise : In(noise)
        Random number: the upper bits of what is added before all below the target's fraction are dropped; the next
        lower bit is one. In the cycle of its `i`.
    o, clipped
        As of `RoundSaturate`, with the same latency.
    """

    LATENCY = RoundSaturate.LATENCY

    def __init__(self, width: int, drop: int, noise: int, target: Format) -> None:
        self.drop, self.target = drop, target
        super().__init__(
            {"i": In(signed(width)), "noise": In(noise), "o": Out(signed(target.width)), "clipped": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # bits below the lowest one of the random number do not matter
        odd = Cat(1, self.noise)
        below = self.drop - len(odd)
        kept, added = Signal(signed(len(self.i) - below), reset_less=True), Signal.like(odd, reset_less=True)
        m.d.sync += [kept.eq(self.i[below:]), added.eq(odd)]
        total = Signal(signed(len(kept) + 1), reset_less=True)
        m.d.sync += total.eq(kept + Cat(added, 0).as_signed())
        rounded = Signal(signed(len(total) - len(odd)))
        m.d.comb += rounded.eq(total[len(odd) :])
        width = self.target.width
        m.d.sync += [
            data_register(m, self.o).eq(saturate(rounded, width)),
            data_register(m, self.clipped).eq(~_fits(rounded, width)),
        ]
        return m
