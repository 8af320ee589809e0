"""Rules of `mse_difference`: one word out for each pair of sides, and a target taken with each logit."""

from __future__ import annotations

from amaranth.hdl import Signal

from ...golden.zo.mse_difference import MseDifferenceSpec
from ..formal.checker import Checker

SPEC = MseDifferenceSpec(outputs=2)
CUT = ("multipliers",)


def check(checker: Checker, spec: MseDifferenceSpec) -> None:
    """Add the rules; every side is assumed to have all outputs, as in a core."""
    m, moves = checker.m, checker.moves("i")
    end = moves & checker.payload("i").last
    checker.packets("i", spec.outputs, spec.outputs)
    side = Signal(name="side")
    with m.If(end):
        m.d.sync += side.eq(~side)

    given = checker.streams["o"]
    owed = checker.balance(
        "pairs", [(end & side, 1)], [(given.valid, checker.moves("o"), 1)], 1, drained=spec.latency + 1
    )
    checker.rule("target_taken", moves == checker.moves("target"))
    checker.takes("i", (owed == 0) & checker.streams["target"].valid)
    checker.progress(spec.latency)
