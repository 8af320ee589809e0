"""Rules of `celoss`: a gradient for each probability, 1 less at the label's class; one label for each sample."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.fixed import Q4_12
from ...golden.nn.celoss import LABEL, CelossSpec
from ..formal.checker import Checker

SPEC = CelossSpec()


def check(checker: Checker, spec: CelossSpec) -> None:
    m, word, result, label = checker.m, checker.payload("i"), checker.payload("o"), checker.payload("label")
    inside = checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency, only="last")
    checker.takes("i", (inside == 0) & checker.streams["label"].valid)
    checker.progress(1)
    checker.rule("label_taken", checker.moves("label") == (checker.moves("i") & word.last))
    checker.rule("label_waited_for", ~checker.moves("i") | checker.streams["label"].valid)
    place, expected, last = Signal(LABEL.width), Signal(Q4_12.width), Signal()
    with m.If(checker.moves("i")):
        m.d.sync += [
            place.eq(Mux(word.last, 0, place + 1)),
            expected.eq(word.probability - Mux(place == label.label, 1 << Q4_12.fraction, 0)),
            last.eq(word.last),
        ]
    offered = checker.streams["o"].valid
    checker.rule("gradient", ~offered | ((result.gradient.as_unsigned() == expected) & (result.last == last)))
