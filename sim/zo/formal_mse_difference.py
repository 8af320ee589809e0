"""Rules of `mse_difference`: one output word for each plus and minus pair, and one target accepted with each logit."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.zo.mse_difference import MseDifferenceSpec
from ..formal.checker import Checker

SPEC = MseDifferenceSpec(outputs=2)
CUT = ("multipliers",)


def check(checker: Checker, spec: MseDifferenceSpec) -> None:
    """Assumes that every side has all outputs, as in a core."""
    m, moves = checker.m, checker.moves("i")
    end = moves & checker.payload("i").last
    checker.packets("i", spec.outputs, spec.outputs)
    side = Signal(name="side")
    with m.If(end):
        m.d.sync += side.eq(~side)

    outstanding = checker.balance("pairs", [(end & side, 1)], "o", 1, drained=spec.latency + 1)
    checker.rule("target_taken", moves == checker.moves("target"))
    checker.takes("i", (outstanding == 0) & checker.streams["target"].valid)
    checker.progress(spec.latency)
