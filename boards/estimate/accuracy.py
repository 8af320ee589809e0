"""Error of an estimate against what Vivado gives."""

from __future__ import annotations

from collections.abc import Mapping

RATIO: Mapping[str, tuple[float, float]] = {
    "lut": (0.85, 1.45),
    "ff": (0.99, 1.02),
    "bram36": (1.0, 1.0),
    "dsp": (0.83, 1.2),
}
"""Published count over estimate: least and most, by resource, of four of five held-out designs of docs/estimate.md.

Of block RAMs and DSPs, which few of them have, at least four of five of all designs. No published design has UltraRAM.
"""

PATH_SPREAD = 1.5
"""Factor by which the delay of a path is off, up or down, as a geometric standard deviation: see docs/estimate.md."""


def interval(resource: str, count: float) -> tuple[float, float] | None:
    """Give the counts between which four of five designs are, or None where no published figures were compared."""
    if resource not in RATIO:
        return None
    low, high = (ratio * count for ratio in RATIO[resource])
    return (low, high) if resource == "bram36" else (round(low), round(high))  # half a block is an 18 Kib memory


def path_interval(ns: float) -> tuple[float, float]:
    """Give the delays between which about two of three published designs are."""
    return round(ns / PATH_SPREAD, 2), round(ns * PATH_SPREAD, 2)
