"""Rules of `loss_difference`: one output word and one accepted label for each plus and minus pair."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.zo.loss_difference import LossDifferenceSpec
from ..formal.checker import Checker

SPEC = LossDifferenceSpec(classes=2)
# the memory of minus probabilities is not cut: it also holds the `last` flags
CUT = ("multipliers", "memory:*exponentials*", "memory:*reciprocals*", "memory:*words*", "memory:*logits*")


def check(checker: Checker, spec: LossDifferenceSpec) -> None:
    """Assumes that every side has all classes, as in a core."""
    m, end = checker.m, checker.moves("i") & checker.payload("i").last
    checker.packets("i", spec.classes, spec.classes)
    side = Signal(name="side")
    with m.If(end):
        m.d.sync += side.eq(~side)

    # the pairs in the memories, and an offered word
    checker.balance("pairs", [(end & side, 1)], "o", spec.pairs + 1)
    checker.balance("labels", [(checker.moves("label"), 1)], "o", 1, drained=spec.product + 1)
    checker.progress(spec.period(spec.classes) + spec.latency_of(spec.classes))
