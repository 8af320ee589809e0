"""Rules of `fc`: parameters load between samples, each sample gives its outputs, nothing hangs; see `layer_block`.

Five inputs take two beats, the second incomplete; three outputs take two groups of columns.
"""

from __future__ import annotations

from ...golden.nn.fc import FcSpec
from . import layer_block

SPEC = FcSpec(inputs=5, outputs=3, lanes=16, columns=2)
CUT = layer_block.CUT
LARGE = True
check = layer_block.layer_rules
