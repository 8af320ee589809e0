"""Rules of `grng`: the golden number in every cycle, and no register ever freezes.

The widths are fixed. The numbers of form "tree" are compared with the logic of form "select" and vice versa: both must
give equal numbers.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Signal, Value

from ...golden.rng.grng import WIDTHS, GrngSpec
from ...hw.rng.grng import number_of
from ..formal.checker import Checker

SPEC = GrngSpec()
EQUAL = {"tree": "select", "select": "tree"}
"""The other form of the same numbers."""


def check(checker: Checker, spec: GrngSpec) -> None:
    m, moves = checker.m, checker.moves("o")
    checker.rule("offered", checker.streams["o"].valid)
    alive = []
    contents = [Signal(bits, name=f"contents_{k}") for k, bits in enumerate(WIDTHS)]
    for k, (content, seed, lfsr) in enumerate(zip(contents, spec.seeds, spec.lfsrs, strict=True)):
        # golden's register is the complement of the RTL's, so it freezes at 0
        state = Signal(lfsr.bits, init=seed ^ lfsr.period, name=f"state_{k}")
        with m.If(moves):
            m.d.sync += state.eq(Cat((state & row).xor() for row in lfsr.transition()))
        m.d.comb += content.eq(~state)
        alive.append(state.any())
    checker.rule("alive", Cat(alive).all())
    word = Value.cast(checker.payload("o"))
    checker.rule("number", word == number_of(m, contents, EQUAL.get(spec.form, spec.form))[: len(word)].as_unsigned())
