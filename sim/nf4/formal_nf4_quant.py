"""Rules of `nf4_quant`: a code for each value, blocks end where they ended, and their scale stays the same."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import Signal

from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..formal.checker import Checker


class _SmallSpec(Nf4QuantSpec):
    """Quantiser with a short FIFO and a short buffer, which is slower and for the rest the same."""

    waiting: ClassVar[int] = 2
    preparation: ClassVar[int] = 4


SPEC = _SmallSpec(length=2)
CUT = ("multipliers", "memory:*values*")


def check(checker: Checker, spec: Nf4QuantSpec) -> None:
    """Add the rules. That it cannot hang is left to the bench: the engine finds no proof in its time."""
    checker.packets("i", 1, spec.length)
    # two blocks at a time: a third waits until the first has left
    checker.words("i", "o", capacity=2 * spec.length)
    blocks = checker.words("i", "o", capacity=2, only="last")
    checker.assume(~(checker.streams["i"].valid & (blocks > 1)))
    checker.packets("o", 1, spec.length)
    m, moved, before = checker.m, Signal(name="o_moved"), Signal.like(checker.payload("o").scale, name="o_scale")
    word = checker.payload("o")
    with m.If(checker.moves("o")):
        m.d.sync += [moved.eq(~word.last), before.eq(word.scale)]
    checker.rule("o_one_scale", ~(checker.streams["o"].valid & moved) | (word.scale == before))
