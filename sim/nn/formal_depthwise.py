"""Rules of `depthwise`: parameters load between samples, samples give their outputs, nothing hangs; see `layer_block`.

The 16 sums of a word are rounded in two halves of 8 columns.
"""

from __future__ import annotations

from ...golden.nn.depthwise import DepthwiseSpec
from . import layer_block

SPEC = DepthwiseSpec(channels=1, height=2, width=2, kernel=(1,), padding=(0,), lanes=16, columns=8)
CUT = layer_block.CUT
LARGE = True
check = layer_block.layer_rules
