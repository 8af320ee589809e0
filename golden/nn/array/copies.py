"""Copies of weights in words of two pixels: how far they are from the weights, and the lanes of both."""

from __future__ import annotations

from typing import NamedTuple

from .mapping import Mapping


class Copy(NamedTuple):
    """Distance from a weight for the left pixel to the same weight for the right one, within a word.

    Attributes
    ----------
    lanes, columns : int
    """

    lanes: int
    columns: int


def copy_of(mapping: Mapping, at: int) -> Copy | None:
    """Distance of the copies of stage number `at`; None where each weight stands once."""
    pair, layer = mapping.stages[at].pair, mapping.network_stages[at].layer
    if pair is None:
        return None
    width: int = layer.kernel[1] + pair.apart  # type: ignore[union-attr]
    return Copy(pair.apart * mapping.window(at).values // width, pair.columns)


def copies(mapping: Mapping) -> tuple[Copy, ...]:
    """All distances that stages have, each once, ascending."""
    found = {copy_of(mapping, at) for at in range(len(mapping.stages))}
    return tuple(sorted(copy for copy in found if copy is not None))


def segments(mapping: Mapping) -> tuple[int, ...]:
    """First columns of neighbours that are of the same pixel in every stage."""
    return (0, *sorted({copy.columns for copy in copies(mapping)}))


def tail_lanes(mapping: Mapping, at: int) -> tuple[int, ...]:
    """Lanes of the last word of each run of stage number `at` that have a weight, a bit for each, by segment."""
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
