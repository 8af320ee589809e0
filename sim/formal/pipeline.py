"""Rules of a pipeline whose stages all move together: a word on offer is one that was taken `latency` moves before.

So no word is lost or made. This is proved for any latency, where a count of the words inside is not.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal

from ...golden.block import Spec
from .checker import Checker
from .inside import variables_of


def check_pipeline(checker: Checker, spec: Spec) -> None:
    """Add the rules for streams ``i`` and ``o``; the block's shift register of flags is called ``valid``."""
    m, given = checker.m, checker.streams["o"]
    moves, under_way = ~given.valid | given.ready, Signal(spec.latency, name="under_way")
    checker.rule("i_taken", checker.streams["i"].ready == moves)
    with m.If(moves):
        m.d.sync += under_way.eq(Cat(checker.streams["i"].valid, under_way[:-1]))
    checker.lemma("stages", variables_of(checker.block).valid == under_way)
    checker.rule("o_latency", given.valid == under_way[-1])
    checker.progress(1)
