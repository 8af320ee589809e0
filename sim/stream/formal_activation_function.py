"""Rules of `activation_function`: a word on offer is one that was taken `latency` moves before.

So no word is lost or made. As all stages move at once, this is proved for any latency, where a count of the words
inside is not.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from ...golden.stream.activation_function import ActivationFunctionSpec
from ..formal.checker import Checker
from ..formal.inside import variables_of

SPEC = ActivationFunctionSpec(lanes=1)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: ActivationFunctionSpec) -> None:
    """Add the rules."""
    m, given = checker.m, checker.streams["o"]
    moves, under_way = ~given.valid | given.ready, Signal(spec.latency, name="under_way")
    checker.rule("i_taken", checker.streams["i"].ready == moves)
    with m.If(moves):
        m.d.sync += under_way.eq(Cat(checker.streams["i"].valid, under_way[:-1]))
    checker.lemma("stages", variables_of(checker.block).valid == under_way)
    checker.rule("o_latency", given.valid == under_way[-1])
    checker.progress(1)
