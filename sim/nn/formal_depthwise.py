"""Rules of `depthwise`: parameters come between samples, samples give outputs, nothing hangs; see `layer_block`.

The sums of a word's 16 lanes are rounded in two parts, of eight columns each.
"""

from __future__ import annotations

from ...golden.nn.depthwise import DepthwiseSpec
from ..formal.checker import Checker
from . import layer_block

SPEC = DepthwiseSpec(channels=1, height=2, width=2, kernel=(1,), padding=(0,), lanes=16, columns=8)
CUT = layer_block.CUT
LARGE = True


def check(checker: Checker, spec: DepthwiseSpec) -> None:
    """Add the rules."""
    layer_block.layer_rules(checker, spec)
