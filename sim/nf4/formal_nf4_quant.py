"""Rules of `nf4_quant`: a code for each value, same block ends, one scale a block, and no hang."""

from __future__ import annotations

from typing import ClassVar

from amaranth.hdl import Const, Signal

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
"""First forbidden number of cycles without a code: two threshold computations, plus the pipeline stages around them."""


def check(checker: Checker, spec: Nf4QuantSpec) -> Signal:
    """Returns the number of blocks inside. Word counts follow from the block lengths."""
    m, i, o = checker.m, checker.streams["i"], checker.streams["o"]
    longest = spec.words(spec.length)
    taken, sent = checker.packets("i", 1, longest), checker.packets("o", 1, longest)
    # at most two blocks: a third waits until the first has left
    blocks = checker.words("i", "o", capacity=2, only="last")
    checker.assume(~(i.valid & (blocks > 1)))
    first, second = (Signal(range(longest + 1), name=f"{name}_length") for name in ("first", "second"))
    leaves = checker.moves("o") & o.payload.last
    with m.If(leaves):
        m.d.sync += first.eq(second)
    with m.If(checker.moves("i") & i.payload.last):
        with m.If(blocks == leaves):
            m.d.sync += first.eq(taken + 1)
        with m.Else():
            m.d.sync += second.eq(taken + 1)
    checker.lemma("o_ends", ~o.valid | ((blocks != 0) & (o.payload.last == (sent + 1 == first))))
    checker.words("i", "o", capacity=2 * longest)
    moved, before = Signal(name="o_moved"), Signal.like(o.payload.scale, name="o_scale")
    with m.If(checker.moves("o")):
        m.d.sync += [moved.eq(~o.payload.last), before.eq(o.payload.scale)]
    checker.rule("o_one_scale", ~(o.valid & moved) | (o.payload.scale == before))
    checker.takes("i", Const(1))
    checker.passes("o_comes", (blocks != 0) & o.ready & ~o.valid, _SLOW)
    return blocks
