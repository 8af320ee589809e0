"""Reference rounding and saturation, by remainder and comparison, for equivalence proofs."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed

from ...golden.fixed import Format


def half_even(m: Module, value: Value, drop: int, name: str = "nearest") -> Signal:
    """Quotient of a signed value and ``2**drop``, rounded to nearest, ties to even."""
    quotient, remainder = Signal(signed(len(value) - drop), name=f"{name}_floor"), Signal(drop, name=f"{name}_rest")
    m.d.comb += [quotient.eq(value.as_signed() >> drop), remainder.eq(value[:drop])]
    half = 1 << (drop - 1)
    nearest = Signal(signed(len(quotient) + 1), name=name)
    m.d.comb += nearest.eq(quotient + ((remainder > half) | ((remainder == half) & quotient[0])))
    return nearest


def clamped(value: Value, target: Format) -> tuple[Value, Value]:
    """Number of a format nearest to a signed integer, and a flag: high if the two differ."""
    high, low = value > target.maximum, value < target.minimum
    return Mux(high, target.maximum, Mux(low, target.minimum, value)), high | low
