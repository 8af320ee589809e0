"""Rules of the edges of `zotrain`, see `core_edges`: one AXI4 port, and the registers."""

from __future__ import annotations

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....hw.cores.zotrain.zotrain import Zotrain
from ...formal.checker import Checker
from ..core_edges import core_rules, shrink

CUT = ("memories",)


def part() -> Zotrain:
    """Make the core of a small network."""
    core = Zotrain(ZotrainSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", lanes=16))
    shrink(core)
    return core


def check(checker: Checker, part: Zotrain) -> None:
    core_rules(checker, part)
