"""Rules of a pipeline whose stages move together: an output word was accepted exactly `latency` moves earlier.

Hence no word is lost or invented. This is provable for any latency, unlike a count of the words inside.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ...golden.block import Spec
from .checker import Checker
from .inside import probe_of


def check_stages(checker: Checker, spec: Spec, entering: str) -> Value:
    """Rules from stream `entering` to stream ``o``; the block must probe its shift register of flags as ``valid``.

    Returns
    -------
    Value
        High when the stages move.
    """
    m, output = checker.m, checker.streams["o"]
    moves, under_way = ~output.valid | output.ready, Signal(spec.latency, name="under_way")
    with m.If(moves):
        m.d.sync += under_way.eq(Cat(checker.moves(entering), under_way[:-1]))
    checker.lemma("stages", probe_of(checker.block).valid == under_way)
    checker.rule("o_latency", output.valid == under_way[-1])
    return moves


def check_pipeline(checker: Checker, spec: Spec) -> None:
    """Rules of a pipeline from ``i`` to ``o`` that accepts a word whenever the stages move."""
    moves = check_stages(checker, spec, "i")
    checker.rule("i_taken", checker.streams["i"].ready == moves)
    checker.progress(1)
