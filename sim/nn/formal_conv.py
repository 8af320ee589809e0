"""Rules of `conv`: parameters load between samples, each sample gives its outputs, nothing hangs; see `layer_block`."""

from __future__ import annotations

from ...golden.nn.conv import ConvSpec
from . import layer_block

SPEC = ConvSpec(channels=1, height=2, width=2, outputs=2, kernel=(1,), padding=(0,), pool=(2,), lanes=16, columns=2)
CUT = layer_block.CUT
LARGE = True
check = layer_block.layer_rules
