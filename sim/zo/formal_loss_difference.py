"""Rules of `loss_difference`: one word out for each pair of sides, and one label taken for each."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.zo.loss_difference import LossDifferenceSpec
from ..formal.checker import Checker

SPEC = LossDifferenceSpec(classes=2)
# the mark of a side's last word goes through the memory of the minus side's probabilities, which stays
CUT = ("multipliers", "memory:*exponentials*", "memory:*reciprocals*", "memory:*words*", "memory:*logits*")


def check(checker: Checker, spec: LossDifferenceSpec) -> None:
    """Add the rules; both sides of a pair are assumed to have as many logits."""
    m, end = checker.m, checker.moves("i") & checker.payload("i").last
    count = checker.packets("i", 1, spec.classes)
    side, length = Signal(name="side"), Signal(range(spec.classes), name="length")
    with m.If(end):
        m.d.sync += [side.eq(~side), length.eq(count)]
    port = checker.streams["i"]
    checker.assume(~(port.valid & side) | (port.payload.last == (count == length)))

    given = checker.streams["o"]
    spend = [(given.valid, checker.moves("o"), 1)]
    # two pairs in the memories, and a word on offer
    checker.balance(
        "pairs",
        [(end & side, 1)],
        spend,
        spec.pairs + 1,
        drained=2 * spec.latency_of(spec.classes),
        also=checker.streams["label"].valid,
    )
    checker.balance("labels", [(checker.moves("label"), 1)], spend, 1, drained=spec.product + 1)
    checker.progress(spec.period(spec.classes) + spec.latency_of(spec.classes))
