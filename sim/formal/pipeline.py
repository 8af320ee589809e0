"""Rules of a pipeline whose stages all move together: a word on offer is one that was taken `latency` moves before.

So no word is lost or made. This is proved for any latency, where a count of the words inside is not.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ...golden.block import Spec
from .checker import Checker
from .inside import probe_of


def check_stages(checker: Checker, spec: Spec, entering: str) -> Value:
    """Add the rules for words from a stream to stream ``o``; the block's shift register of flags is called ``valid``.

    Returns
    -------
    Value
        The stages move.
    """
    m, given = checker.m, checker.streams["o"]
    moves, under_way = ~given.valid | given.ready, Signal(spec.latency, name="under_way")
    with m.If(moves):
        m.d.sync += under_way.eq(Cat(checker.moves(entering), under_way[:-1]))
    checker.lemma("stages", probe_of(checker.block).valid == under_way)
    checker.rule("o_latency", given.valid == under_way[-1])
    return moves


def check_pipeline(checker: Checker, spec: Spec) -> None:
    """Add the rules for streams ``i`` and ``o``, of which a word is taken whenever the stages move."""
    moves = check_stages(checker, spec, "i")
    checker.rule("i_taken", checker.streams["i"].ready == moves)
    checker.progress(1)
