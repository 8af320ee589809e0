"""Copies of weights in words of two pixels: their distance and their lanes."""

from __future__ import annotations

from typing import NamedTuple

from .mapping import Mapping


class Copy(NamedTuple):
    """Distance in a word from a weight of the left pixel to its copy for the right pixel."""

    lanes: int
    columns: int


def copy_of(mapping: Mapping, at: int) -> Copy | None:
    """Distance of the copies of stage `at`; None without copies."""
    pair, layer = mapping.stages[at].pair, mapping.network_stages[at].layer
    if pair is None:
        return None
    width: int = layer.kernel[1] + pair.apart  # type: ignore[union-attr]
    return Copy(pair.apart * mapping.window(at).values // width, pair.columns)


def copies(mapping: Mapping) -> tuple[Copy, ...]:
    """Distinct copies of all stages, ascending."""
    found = {copy_of(mapping, at) for at in range(len(mapping.stages))}
    return tuple(sorted(copy for copy in found if copy is not None))


def segments(mapping: Mapping) -> tuple[int, ...]:
    """First columns of runs that belong to one pixel in every stage."""
    return (0, *sorted({copy.columns for copy in copies(mapping)}))


def tail_lanes(mapping: Mapping, at: int) -> tuple[int, ...]:
    """Mask by segment of the lanes with a weight in the last word of a run of stage `at`."""
    stage, values = mapping.stages[at], mapping.window(at).values
    if stage.within:
        return ((1 << mapping.lanes) - 1,) * len(segments(mapping))
    of_sum = (1 << (values - 1) % stage.sum_lanes + 1) - 1
    whole = sum(of_sum << first for first in range(0, mapping.lanes, stage.sum_lanes))
    copy = copy_of(mapping, at)
    if copy is None:
        return (whole,) * len(segments(mapping))
    left, right = (1 << values - copy.lanes) - 1, whole >> copy.lanes << copy.lanes
    return tuple(right if first >= copy.columns else left for first in segments(mapping))
