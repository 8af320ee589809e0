"""Rules of `nf4_quant`: a code for each value, equal block ends, one scale for each block, and no hang."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import Const, Signal, Value

from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..formal.checker import Checker


class SmallSpec(Nf4QuantSpec):
    """Quantiser with a short FIFO and buffer: slower, otherwise equal."""

    waiting: ClassVar[int] = 2
    preparation: ClassVar[int] = 4


SPEC = SmallSpec(length=2)
CUT = ("multipliers", "memory:*values*")
LARGE = True
_SLOW = 60
"""A code comes in fewer cycles than this: two threshold computations, plus the pipeline stages around them."""


def check(checker: Checker, spec: Nf4QuantSpec) -> Signal:
    """Add the rules; return the number of blocks inside. Rules on words follow from the block lengths."""
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    longest = spec.words(spec.length)
    taken, sent = checker.packets("i", 1, longest), checker.packets("o", 1, longest)
    # at most two blocks: a third waits until the first has left
    blocks = checker.words("i", "o", capacity=2, only="last")
    checker.assume(~(i.valid & (blocks > 1)))
    first = of_first(checker, blocks, range(longest + 1), "length", taken + 1)
    checker.lemma("o_ends", ~o.valid | ((blocks != 0) & (o.payload.last == (sent + 1 == first))))
    checker.words("i", "o", capacity=2 * longest)
    moved, before = Signal(name="o_moved"), Signal.like(o.payload.scale, name="o_scale")
    with m.If(checker.moves("o")):
        m.d.sync += [moved.eq(~o.payload.last), before.eq(o.payload.scale)]
    checker.rule("o_one_scale", ~(o.valid & moved) | (o.payload.scale == before))
    checker.takes("i", Const(1))
    checker.passes("o_comes", (blocks != 0) & o.ready & ~o.valid, _SLOW)
    return blocks


def of_first(checker: Checker, blocks: Signal, shape: int | range, name: str, value: Value) -> Signal:
    """`value` as it was at the block's last input word, for the first of at most two blocks inside."""
    m, leaves = checker.m, checker.moves("o") & checker.payload("o").last
    first, second = (Signal(shape, name=f"{which}_{name}") for which in ("first", "second"))
    with m.If(leaves):
        m.d.sync += first.eq(second)
    with m.If(checker.moves("i") & checker.payload("i").last):
        with m.If(blocks == leaves):
            m.d.sync += first.eq(value)
        with m.Else():
            m.d.sync += second.eq(value)
    return first
