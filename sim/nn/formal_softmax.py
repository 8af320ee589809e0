"""Rules of `softmax`: each sample gives as many probabilities as it has logits."""

from __future__ import annotations

from ...golden.nn.softmax import SoftmaxSpec
from ..formal.checker import Checker

SPEC = SoftmaxSpec(classes=3)
CUT = ("multipliers", "memories")


def check(checker: Checker, spec: SoftmaxSpec) -> None:
    checker.packets("i", 1, spec.classes)
    slow = 3 * spec.classes + 5 + spec.octaves + 5
    checker.words("i", "o", capacity=spec.classes + 5, drained=0)
    checker.words("i", "o", capacity=2, drained=0, only="last")
    checker.progress(slow)
