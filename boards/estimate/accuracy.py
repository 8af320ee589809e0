"""Error of an estimate against Vivado."""

from __future__ import annotations

from collections.abc import Mapping

RATIO: Mapping[str, tuple[float, float]] = {
    "lut": (0.85, 1.45),
    "ff": (0.99, 1.02),
    "bram36": (1.0, 1.0),
    "dsp": (0.83, 1.2),
}
"""Least and most published count over estimate, by resource, of four of five held-out designs of docs/estimate.md.

Block RAMs and DSPs: of at least four of five of all designs, as few designs have any. No published design has UltraRAM.
"""

PATH_SPREAD = 1.5
"""Geometric standard deviation of path delays, published over estimated (docs/estimate.md)."""


def interval(resource: str, count: float) -> tuple[float, float] | None:
    """Range of Vivado's count for four of five designs; None for a resource without published figures."""
    if resource not in RATIO:
        return None
    low, high = (ratio * count for ratio in RATIO[resource])
    return (low, high) if resource == "bram36" else (round(low), round(high))  # half a block is an 18 Kib memory


def path_interval(ns: float) -> tuple[float, float]:
    """Range in ns of about two of three published path delays."""
    return round(ns / PATH_SPREAD, 2), round(ns * PATH_SPREAD, 2)
