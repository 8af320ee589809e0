"""Rules of `urng`: golden's words from reset and from any load on, a load reads the old state, no number ever stops.

Three registers of four bits have all of the control, two bits a step both kinds of a register's inputs; their 15
positions are a table.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import offers, sequence

SPEC = UrngSpec(n=3, bits=4, leap=2)


def check(checker: Checker, spec: UrngSpec) -> None:
    """Add the rules.

    Rules ``alive`` (no number is 0 but where a load put it: zeros rotate, and none comes or goes) and ``moves`` (from
    reset on no word is that before it).
    """
    offers(checker)
    sequence(checker, spec, replays=False)
    m, word = checker.m, Value.cast(checker.payload("o"))
    zeros = Cat(~word.word_select(lane, spec.bits).any() for lane in range(spec.n))
    stepped, before, were = Signal(name="stepped"), Signal(len(word), name="word_before"), Signal(spec.n, name="zeros")
    loaded = Signal(name="loaded")
    m.d.sync += [stepped.eq(checker.moves("o")), before.eq(word), were.eq(zeros)]
    with m.If(checker.moves("load")):
        m.d.sync += loaded.eq(1)
    stands = checker.streams["o"].valid
    follows = stands & stepped
    checker.rule("alive", (~follows | (zeros == were.rotate_right(1))) & (~stands | loaded | ~zeros.any()))
    checker.rule("moves", ~follows | loaded | (word != before))
