"""Rules of `perturb`: an output word for each input word, with the weight of a reference description."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, signed

from ...golden.fixed import Q4_12
from ...golden.zo.perturb import PerturbSpec
from ..formal.arithmetic import clamped, half_even
from ..formal.checker import Checker

SPEC = PerturbSpec(tag=1)


def check(checker: Checker, spec: PerturbSpec) -> None:
    """The reference covers a single lane with rounding half to even."""
    inside = checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.takes("i", inside == 0)
    checker.progress(1)
    if (spec.lanes, spec.rounding) != (1, "half-even"):
        return
    m, word = checker.m, checker.payload("i")
    number = Cat(1, word.number).as_signed() if spec.odd else word.number
    exact = number * word.scale if spec.scale else number
    product = Signal(signed(max(len(exact), spec.shift + 1)), name="product")
    m.d.comb += product.eq(exact)
    step = half_even(m, product, spec.shift)
    total = Signal(signed(max(len(step), Q4_12.width) + 2), name="total")
    m.d.comb += total.eq(word.weight + Mux(word.sign[0], Mux(word.sign[1], -step, step), 0))
    weight = total if spec.overflow == "wrap" else clamped(total, Q4_12)[0]
    expected = Signal(Q4_12.width, name="expected")
    m.d.comb += expected.eq(weight)
    checker.becomes("i", "o", spec.latency, expected, checker.payload("o").weight)
