"""Rules of the edges of `instantft`, see `core_edges`: two AXI4 ports, and the registers."""

from __future__ import annotations

from ....golden.cores.instantft.instantft import InstantftSpec
from ....hw.cores.instantft.instantft import Instantft
from ...formal.checker import Checker
from ..core_edges import core_rules, shrink

CUT = ("memories",)


def part() -> Instantft:
    """Make the core of a small network."""
    core = Instantft(InstantftSpec(network="digits", lanes=16, ports=2))
    shrink(core)
    return core


def check(checker: Checker, part: Instantft) -> None:
    core_rules(checker, part)
