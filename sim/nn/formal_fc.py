"""Rules of `fc`: parameters are taken whole, and between samples; see `layer_rules`.

Five inputs are two beats, of which the second is not full, and three outputs two groups of columns.
"""

from __future__ import annotations

from ...golden.nn.fc import FcSpec
from ..formal.checker import Checker
from . import layer_rules

SPEC = FcSpec(inputs=5, outputs=3, lanes=16, columns=2)
CUT = layer_rules.CUT


def check(checker: Checker, spec: FcSpec) -> None:
    """Add the rules."""
    layer_rules.layer_rules(checker, spec)
