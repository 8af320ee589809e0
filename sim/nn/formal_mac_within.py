"""Rules of `mac` within its multipliers: those of `mac` across the lanes, at the latency of a multiplier."""

from __future__ import annotations

from dataclasses import replace

from ...hw.nn.mac import Mac
from ..formal.checker import Checker
from . import formal_mac

CUT = formal_mac.CUT


def part() -> Mac:
    """Make the block of `formal_mac` in its other mode."""
    return Mac(replace(formal_mac.SPEC, mode="within"))


def check(checker: Checker, part: Mac) -> None:
    """Add the rules."""
    formal_mac.check(checker, part.spec)
