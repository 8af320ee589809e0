"""Rules of `mac` summing across the lanes: one sum for each word marked last, at the specified latency.

Two lanes and one column contain the whole control; a wider array only adds levels to the adder tree.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from ...golden.nn.mac import MacSpec
from ..formal.checker import Checker

SPEC = MacSpec(lanes=2, columns=1, terms=4, batch=2)
CUT = ("multipliers",)


def check(checker: Checker, spec: MacSpec) -> None:
    m, port = checker.m, checker.streams["o"]
    ends = checker.moves("i") & checker.payload("i").last
    checker.balance("o_words", [(ends, 1)], "o", spec.latency, spec.latency)
    checker.progress(1)
    # all stages move together, and wait only for the receiver
    moves, under_way = ~port.valid | port.ready, Signal(spec.latency, name="under_way")
    checker.rule("i_taken", checker.streams["i"].ready == moves)
    with m.If(moves):
        m.d.sync += under_way.eq(Cat(ends, under_way[:-1]))
    checker.rule("o_latency", port.valid == under_way[-1])
