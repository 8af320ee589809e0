"""Rules of `mseloss`: a gradient and a target for each logit."""

from __future__ import annotations

from ...golden.lora.mseloss import MselossSpec
from ..formal.checker import Checker

SPEC = MselossSpec()


def check(checker: Checker, spec: MselossSpec) -> None:
    inside = checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency, only="last")
    checker.takes("i", (inside == 0) & checker.streams["target"].valid)
    checker.rule("target_taken", checker.moves("target") == checker.moves("i"))
    checker.in_order("i", "o", spec.latency, ("last",))
    checker.progress(1)
