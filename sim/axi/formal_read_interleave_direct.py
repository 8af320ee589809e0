"""Rules of `ReadInterleave` with `direct`: each command reaches its port in the same cycle."""

from __future__ import annotations

from ...hw.axi.read_interleave import ReadInterleave
from .formal_read_interleave import CUT, PORTS, check

__all__ = ["CUT", "check", "part"]


def part() -> ReadInterleave:
    return ReadInterleave(PORTS, most=100, direct=True)
