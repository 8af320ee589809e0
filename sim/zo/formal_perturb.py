"""Rules of `perturb`: one word out for each word in, and with wrapping weights plus and minus undo each other."""

from __future__ import annotations

from ...golden.zo.perturb import PerturbSpec
from ..formal.checker import Checker

SPEC = PerturbSpec(tag=1)


def check(checker: Checker, spec: PerturbSpec) -> None:
    """Add the rules."""
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.progress(1)
