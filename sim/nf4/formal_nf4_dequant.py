"""Rules of `nf4_dequant`: an output word for each input word, at most one inside per pipeline stage."""

from __future__ import annotations

from ...golden.nf4.nf4_dequant import Nf4DequantSpec
from ..formal.checker import Checker

SPEC = Nf4DequantSpec(lanes=8, scales=2, tag=1)
CUT = ("multipliers",)


def check(checker: Checker, spec: Nf4DequantSpec) -> None:
    inside = checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.takes("i", inside == 0)
    checker.progress(1)
