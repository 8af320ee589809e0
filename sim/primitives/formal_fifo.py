"""Rules of the FIFO: no overflow, no word lost or invented, and order preserved."""

from __future__ import annotations

from ...hw.primitives.fifo import Fifo
from ..formal.checker import Checker

DEPTH, WIDTH = 4, 2


def part() -> Fifo:
    """Two bits stand for any width: all bits take the same path."""
    return Fifo(WIDTH, DEPTH)


def check(checker: Checker, part: Fifo) -> None:
    checker.words("i", "o", capacity=DEPTH + 1, drained=DEPTH + 3)
    checker.progress(4)
    checker.in_order("i", "o", DEPTH + 1)
