"""Rules of the FIFO: no overflow, no word lost or made, and the words come out as they went in, in order."""

from __future__ import annotations

from ...hw.primitives.fifo import Fifo
from ..formal.checker import Checker

DEPTH, WIDTH = 4, 2


def part() -> Fifo:
    """Make a FIFO of four words of two bits; a word's bits are alike, so that two are as good as any number."""
    return Fifo(WIDTH, DEPTH)


def check(checker: Checker, part: Fifo) -> None:
    """Add the rules."""
    checker.words("i", "o", capacity=DEPTH + 1, drained=DEPTH + 3)
    checker.progress(4)
    checker.in_order("i", "o", DEPTH + 1)
