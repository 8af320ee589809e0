"""Layout of the sample and of stage outputs in the activation memory.

A map is stored pixel by pixel, channels adjacent, with the largest zero padding among its readers. A sample read only
by the first convolution may have its rows replicated, once for each kernel row, where this saves words.

Parts of a concatenation share a region: each pixel has the channels of all parts, without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ...models.layers import Convolution, Linear, Shape, Sides
from ...models.stages import Stage, Tensors
from ..arithmetic.forward import beyond_map, computed_pixels


class TensorLayout(NamedTuple):
    """Layout of a tensor in its region of the activation memory; a vector is one row.

    Attributes
    ----------
    rows : int
    pitch, column : int
        Values to the next row, to the next column.
    origin : int
        Offset of the first value after the zeros.
    """

    rows: int
    pitch: int
    column: int
    origin: int


class RegionSlice(NamedTuple):
    """Place of a tensor in the region that it shares with other parts of concatenations.

    Attributes
    ----------
    region : tuple of int
        Tensors of the region, ascending.
    first : int
        First channel of the tensor, or feature of a vector.
    channels : int
        Channels of the region.
    """

    region: Tensors
    first: int
    channels: int


class CopyNeededError(Exception):
    """Concatenation whose parts cannot be adjacent; `stage` reads it."""

    def __init__(self, stage: int, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


def places(stages: Sequence[Stage]) -> dict[int, RegionSlice]:
    """Place of each part of a concatenation, by tensor.

    Raises
    ------
    CopyNeededError
        If a concatenation needs a copy.
    """
    # region of each tensor: first channels by tensor, which may still be negative
    regions: dict[int, dict[int, int]] = {}
    for number, stage in enumerate(stages):
        for tensors in (stage.source, stage.residual or ()):
            if len(tensors) > 1 and (reason := _join(stages, tensors, regions)):
                raise CopyNeededError(number, reason)
    found = {}
    for tensor, region in regions.items():
        least = min(region.values())
        channels = max(first + _shape(stages, one)[0] for one, first in region.items()) - least
        found[tensor] = RegionSlice(tuple(sorted(region)), region[tensor] - least, channels)
    return found


def _join(stages: Sequence[Stage], tensors: Tensors, regions: dict[int, dict[int, int]]) -> str:
    """Join the regions of tensors, adjacent in this order; returns the reason of a failure."""
    if min(tensors) < 0:
        return "a concatenation with the sample"
    pixels = {_shape(stages, tensor)[1:] for tensor in tensors}
    if len(pixels) > 1:
        return "a concatenation of flattened maps of several sizes"
    begin = 0
    joined: dict[int, int] = {}
    for tensor in tensors:
        own = regions.get(tensor, {tensor: 0})
        moved = {other: first + begin - own[tensor] for other, first in own.items()}
        if any(joined.setdefault(other, first) != first for other, first in moved.items()):
            return f"a concatenation with the outputs of stage {tensor}, which have another place in another one"
        begin += _shape(stages, tensor)[0]
    order = sorted(joined, key=joined.__getitem__)
    for one, following in pairwise(order):
        if joined[one] + _shape(stages, one)[0] > joined[following]:
            return f"a concatenation with the outputs of stage {one}, which have another neighbour in another one"
    for tensor in joined:
        regions[tensor] = joined
    return ""


def _shape(stages: Sequence[Stage], tensor: int) -> Shape:
    return stages[tensor].output_shape if tensor >= 0 else stages[0].input_shape


def is_map(stage: Stage) -> bool:
    """Whether a stage reads maps by the pixel."""
    return not isinstance(stage.layer, Linear) and len(stage.computed_shape) == 3


def sample_is_map(stages: Sequence[Stage]) -> bool:
    """Whether the sample is stored by the pixel, as a stage reads or adds pixels."""
    return any(is_map(stage) for stage in _readers(stages, -1))


def row_replicas(stages: Sequence[Stage], lanes: int) -> int:
    """Adjacent copies of a sample's rows, which make the first convolution's window one run."""
    first = stages[0]
    other_readers = len(_readers(stages, -1)) > 1 or first.residual is not None
    if not isinstance(first.layer, Convolution) or first.layer.groups > 1 or other_readers or any(beyond_map(first)):
        return 1
    (height, width), channels = first.layer.kernel, first.input_shape[0]
    apart = height * -(-width * channels // lanes)
    beside = -(-height * width * channels // lanes)
    return height if beside < apart and height <= lanes else 1


def tensor_layout(stages: Sequence[Stage], tensor: int, lanes: int, shared: dict[int, RegionSlice]) -> TensorLayout:
    """Layout of a stage's outputs, or of the sample, -1; `shared` is from `places`."""
    shape = _shape(stages, tensor)
    place = shared.get(tensor, RegionSlice((tensor,), 0, shape[0]))
    if len(shape) == 1 or (tensor < 0 and not sample_is_map(stages)):
        return TensorLayout(1, place.channels * prod(shape[1:]), 1, place.first)
    _, height, width = shape
    readers = [(one, stage) for one in place.region for stage in _readers(stages, one) if is_map(stage)]
    sides = [_read_beyond(stage, one) for one, stage in readers]
    top, bottom, left, right = (max(side, default=0) for side in zip(*sides, strict=True)) if sides else (0,) * 4
    replicas = row_replicas(stages, lanes) if tensor < 0 else 1
    column = place.channels * replicas
    pitch = (width + left + right) * column
    rows = height + top + bottom
    if replicas > 1:
        first = stages[0]
        assert isinstance(first.layer, Convolution)
        rows = (computed_pixels(first)[0] - 1) * first.layer.stride[0] + 1
        pitch = -(-pitch // lanes) * lanes
    return TensorLayout(rows, pitch, column, top * pitch + left * column + place.first)


def _read_beyond(stage: Stage, tensor: int) -> Sides:
    """Padding that a stage needs around a map, for its kernel and its pool: top, bottom, left, right."""
    top, bottom, left, right = beyond_map(stage)
    if tensor not in stage.source or isinstance(stage.layer, Linear):
        return top, bottom, left, right
    (down, across), padding = stage.layer.stride, stage.layer.padding
    beyond = top * down, bottom * down, left * across, right * across
    return tuple(own + more for own, more in zip(padding, beyond, strict=True))  # type: ignore[return-value]


def _readers(stages: Sequence[Stage], tensor: int) -> list[Stage]:
    """Stages with a tensor as source or residual."""
    return [stage for stage in stages if tensor in stage.reads]
