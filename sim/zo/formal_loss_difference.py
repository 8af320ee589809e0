"""Rules of `loss_difference`: one word out for each pair of sides, and one label taken for each."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.zo.loss_difference import LossDifferenceSpec
from ..formal.checker import Checker

SPEC = LossDifferenceSpec(classes=2)
# the mark of a side's last word goes through the memory of the minus side's probabilities, which stays
CUT = ("multipliers", "memory:*exponentials*", "memory:*reciprocals*", "memory:*words*", "memory:*logits*")


def check(checker: Checker, spec: LossDifferenceSpec) -> None:
    """Add the rules; every side is assumed to have all classes, as in a core."""
    m, end = checker.m, checker.moves("i") & checker.payload("i").last
    checker.packets("i", spec.classes, spec.classes)
    side = Signal(name="side")
    with m.If(end):
        m.d.sync += side.eq(~side)

    given = checker.streams["o"]
    spend = [(given.valid, checker.moves("o"), 1)]
    # two pairs in the memories, and a word on offer
    checker.balance("pairs", [(end & side, 1)], spend, spec.pairs + 1)
    checker.balance("labels", [(checker.moves("label"), 1)], spend, 1, drained=spec.product + 1)
    checker.progress(spec.period(spec.classes) + spec.latency_of(spec.classes))
