"""Rule of two `perturb` in series: adding and subtracting the same number is the identity for wrapping weights."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.zo.perturb import PerturbSpec
from ...hw.primitives.pipeline import delayed
from ...hw.zo.perturb import Perturb
from ..formal.checker import Checker

_NUMBER, _SCALE = 8, 4
SPEC_OF_EACH = PerturbSpec(number="Q1.7", odd=True, scale="U2.2", overflow="wrap", tag=_NUMBER + _SCALE)


class Undone(wiring.Component):  # type: ignore[misc]  # Amaranth has no types
    """A perturbation followed by its opposite.

    Attributes
    ----------
    i : In, stream of ``weight`` (Q4.12), ``number`` (Q1.7), ``scale`` (U2.2)
        Weights and their perturbation.
    o : Out, stream of ``weight`` (Q4.12)
        Weights after both perturbations.
    """

    def __init__(self) -> None:
        layout = data.StructLayout({"weight": 16, "number": _NUMBER, "scale": _SCALE})
        super().__init__(
            {"i": In(stream.Signature(layout)), "o": Out(stream.Signature(data.StructLayout({"weight": 16})))}
        )

    def elaborate(self, platform: object) -> Module:
        """Connect both blocks; number and factor travel as the first block's tag."""
        m = Module()
        m.submodules.forth = forth = Perturb(SPEC_OF_EACH)
        m.submodules.back = back = Perturb(SPEC_OF_EACH)
        for source, target in ((self.i, forth.i), (forth.o, back.i), (back.o, self.o)):
            m.d.comb += [
                target.valid.eq(source.valid),
                source.ready.eq(target.ready),
                target.payload.weight.eq(source.payload.weight),
            ]
        moved, first = Cat(self.i.payload.number, self.i.payload.scale), forth.i.payload
        m.d.comb += [first.tag.eq(moved), Cat(first.number, first.scale).eq(moved), first.sign.eq(0b01)]
        m.d.comb += [Cat(back.i.payload.number, back.i.payload.scale).eq(forth.o.payload.tag)]
        m.d.comb += back.i.payload.sign.eq(0b11)
        return m


def part() -> Undone:
    return Undone()


def check(checker: Checker, part: Undone) -> None:
    """Assumes no stalls, which the rules of `perturb` cover."""
    m, out = checker.m, checker.streams["o"]
    checker.assume(out.ready)
    latency = 2 * SPEC_OF_EACH.latency
    due = delayed(m, checker.moves("i"), latency, "there")
    before = delayed(m, checker.payload("i").weight, latency, "before")
    checker.rule("identity", ~due | (out.valid & (out.payload.weight == before)))
