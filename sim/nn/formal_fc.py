"""Rules of `fc`: parameters come between samples, each sample gives its outputs, nothing hangs; see `layer_block`.

Five inputs are two beats, of which the second is not full, and three outputs two groups of columns.
"""

from __future__ import annotations

from ...golden.nn.fc import FcSpec
from ..formal.checker import Checker
from . import layer_block

SPEC = FcSpec(inputs=5, outputs=3, lanes=16, columns=2)
CUT = layer_block.CUT
LARGE = True


def check(checker: Checker, spec: FcSpec) -> None:
    """Add the rules."""
    layer_block.layer_rules(checker, spec)
