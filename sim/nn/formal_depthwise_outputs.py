"""Rules of `depthwise` with one input and one output: as many outputs as samples, nothing hangs; see `output_rules`."""

from __future__ import annotations

from ...golden.nn.depthwise import DepthwiseSpec
from ...hw.nn.layer_block import LayerBlock
from ..formal.checker import Checker
from . import layer_block

CUT = layer_block.CUT


def part() -> LayerBlock:
    """Make the block."""
    return LayerBlock(DepthwiseSpec(channels=1, height=1, width=1, kernel=(1,), padding=(0,), lanes=16, columns=8))


def check(checker: Checker, part: LayerBlock) -> None:
    """Add the rules."""
    layer_block.output_rules(checker, part.spec)
