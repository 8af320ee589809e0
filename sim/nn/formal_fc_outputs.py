"""Rules of `fc` with one input and one output: as many outputs as samples, and nothing hangs; see `output_rules`."""

from __future__ import annotations

from ...golden.nn.fc import FcSpec
from ...hw.nn.layer_block import LayerBlock
from ..formal.checker import Checker
from . import layer_block

CUT = layer_block.CUT


def part() -> LayerBlock:
    """Make the block."""
    return LayerBlock(FcSpec(inputs=1, outputs=1, lanes=16, columns=2))


def check(checker: Checker, part: LayerBlock) -> None:
    """Add the rules."""
    layer_block.output_rules(checker, part.spec)
