"""Rules of `nf4_quant` with two values a word: as with one, plus the position of unused second values."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..formal.checker import Checker
from . import formal_nf4_quant

SPEC = formal_nf4_quant.SmallSpec(length=4, values=2)
CUT, LARGE = formal_nf4_quant.CUT, True


def check(checker: Checker, spec: Nf4QuantSpec) -> None:
    """The reference stores for both blocks inside whether their last word has a single value."""
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    checker.assume(~i.valid | ~i.payload.single | i.payload.last)
    blocks = formal_nf4_quant.check(checker, spec)
    first, second = (Signal(name=f"{name}_single") for name in ("first", "second"))
    leaves = checker.moves("o") & o.payload.last
    with m.If(leaves):
        m.d.sync += first.eq(second)
    with m.If(checker.moves("i") & i.payload.last):
        with m.If(blocks == leaves):
            m.d.sync += first.eq(i.payload.single)
        with m.Else():
            m.d.sync += second.eq(i.payload.single)
    checker.rule("o_single", ~o.valid | (o.payload.single == (o.payload.last & first)))
