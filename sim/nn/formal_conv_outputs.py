"""Rules of `conv` with one input and one output: as many outputs as samples, and nothing hangs; see `output_rules`."""

from __future__ import annotations

from ...golden.nn.conv import ConvSpec
from ...hw.nn.layer_block import LayerBlock
from ..formal.checker import Checker
from . import layer_block

CUT = layer_block.CUT


def part() -> LayerBlock:
    """Make the block."""
    return LayerBlock(
        ConvSpec(channels=1, height=1, width=1, outputs=1, kernel=(1,), padding=(0,), pool=(1,), lanes=16, columns=2)
    )


def check(checker: Checker, part: LayerBlock) -> None:
    """Add the rules."""
    layer_block.output_rules(checker, part.spec)
