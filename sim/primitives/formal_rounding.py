"""Rules of `RoundSaturate`: for all inputs equal to a reference that uses remainder and comparison."""

from __future__ import annotations

from amaranth.hdl import Signal, signed

from ...golden.fixed import Q4_12
from ...hw.primitives.pipeline import delayed
from ...hw.primitives.rounding import RoundSaturate
from ..formal.arithmetic import clamped, half_even
from ..formal.checker import Checker

COMPLETE = True
WIDTH, DROP = 40, 12


def part() -> RoundSaturate:
    """Rounds a sum of products to Q4.12."""
    return RoundSaturate(WIDTH, DROP, Q4_12)


def check(checker: Checker, part: RoundSaturate) -> None:
    m = checker.m
    value, clipped = clamped(half_even(m, checker.ports["i"], part.drop), part.target)
    expected, over = Signal(signed(part.target.width), name="expected"), Signal(name="over")
    m.d.comb += [expected.eq(value), over.eq(clipped)]
    # a reset clears pipeline registers, so outputs of earlier inputs are not checked
    high = Signal(init=1, name="one")
    m.d.comb += high.eq(1)
    known = delayed(m, high, part.LATENCY, "known")
    for name, described in (("o", expected), ("clipped", over)):
        checker.rule(name, ~known | (checker.ports[name] == delayed(m, described, part.LATENCY, name)))
