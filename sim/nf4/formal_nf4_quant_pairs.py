"""Rules of `nf4_quant` with two values a word: those of `formal_nf4_quant`, and which second values are unused."""

from __future__ import annotations

from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..formal.checker import Checker
from . import formal_nf4_quant

SPEC = formal_nf4_quant.SmallSpec(length=4, values=2)
CUT, LARGE = formal_nf4_quant.CUT, True


def check(checker: Checker, spec: Nf4QuantSpec) -> None:
    """For each of the two blocks inside, the reference stores whether the last word has a single value."""
    i, o = checker.streams["i"], checker.streams["o"]
    checker.assume(~i.valid | ~i.payload.single | i.payload.last)
    blocks = formal_nf4_quant.check(checker, spec)
    first = formal_nf4_quant.of_first(checker, blocks, 1, "single", i.payload.single)
    checker.rule("o_single", ~o.valid | (o.payload.single == (o.payload.last & first)))
