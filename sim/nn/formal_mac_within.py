"""Rules of `mac` within its multipliers: as across the lanes, at a multiplier's latency."""

from __future__ import annotations

from dataclasses import replace

from ...hw.nn.mac import Mac
from ..formal.checker import Checker
from . import formal_mac

CUT = formal_mac.CUT


def part() -> Mac:
    return Mac(replace(formal_mac.SPEC, mode="within"))


def check(checker: Checker, part: Mac) -> None:
    formal_mac.check(checker, part.spec)
