"""Rules of `urng`: golden words after a reset and after any load; a load scans out the old state; no number freezes.

Three 4-bit registers contain the whole control, and two bits a step give both kinds of register inputs. The golden
words of the 15 positions form a table.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ...golden.rng.urng import UrngSpec
from ..formal.checker import Checker
from .sequence import offers, sequence

SPEC = UrngSpec(n=3, bits=4, leap=2)


def check(checker: Checker, spec: UrngSpec) -> None:
    """Rules ``alive`` (only a load makes a number 0; zeros rotate, and none appears or vanishes) and ``moves`` (after a
    reset, without a load, no word repeats the previous word).
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
