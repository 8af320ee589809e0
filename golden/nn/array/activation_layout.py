"""Layout of tensors in the activation memory: the sample, and the outputs of every stage that others read.

A map is stored pixel by pixel with the channels side by side, within the zeros that its readers want around it: on
each side as many as the one that wants most. Where that saves words, and the first convolution is all that reads the
sample, its rows are stored as often side by side as the kernel has rows.

A concatenation costs nothing: its parts share a region, in which each pixel has the channels of all of them.
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
        Place of the first value, behind the zeros.
    """

    rows: int
    pitch: int
    column: int
    origin: int


class Place(NamedTuple):
    """Place of a tensor among those of concatenations that share its region.

    Attributes
    ----------
    region : tuple of int
        Numbers of the tensors of the region, ascending.
    first : int
        Channels, or features of a vector, of others before its own.
    channels : int
        Those of the whole region.
    """

    region: Tensors
    first: int
    channels: int


class CopyNeededError(Exception):
    """Concatenation whose parts cannot lie side by side.

    Parameters
    ----------
    stage : int
        Number of the stage that reads it.
    reason : str
    """

    def __init__(self, stage: int, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


def places(stages: Sequence[Stage]) -> dict[int, Place]:
    """Find the places of all tensors that are parts of a concatenation.

    Raises
    ------
    CopyNeededError
        If a concatenation cannot be had without a copy.
    """
    # by tensor: the region, as tensors with their first channels, which may still be below 0
    regions: dict[int, dict[int, int]] = {}
    for number, stage in enumerate(stages):
        for tensors in (stage.source, stage.residual or ()):
            if len(tensors) > 1 and (reason := _join(stages, tensors, regions)):
                raise CopyNeededError(number, reason)
    found = {}
    for tensor, region in regions.items():
        least = min(region.values())
        channels = max(first + _shape(stages, one)[0] for one, first in region.items()) - least
        found[tensor] = Place(tuple(sorted(region)), region[tensor] - least, channels)
    return found


def _join(stages: Sequence[Stage], tensors: Tensors, regions: dict[int, dict[int, int]]) -> str:
    """Bring the regions of these tensors together, so that they are neighbours in this order; or why they cannot be."""
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
    """Whether a stage reads pixels of maps, and not a vector or all values of maps at once."""
    return not isinstance(stage.layer, Linear) and len(stage.computed_shape) == 3


def sample_is_map(stages: Sequence[Stage]) -> bool:
    """Whether the sample lies pixel by pixel, as a stage reads or adds pixels, and not in its own order."""
    return any(is_map(stage) for stage in _readers(stages, -1))


def row_replicas(stages: Sequence[Stage], lanes: int) -> int:
    """Copies of a sample's rows, stored side by side: the window of the first convolution is then one run."""
    first = stages[0]
    other_readers = len(_readers(stages, -1)) > 1 or first.residual is not None
    if not isinstance(first.layer, Convolution) or first.layer.groups > 1 or other_readers or any(beyond_map(first)):
        return 1
    (height, width), channels = first.layer.kernel, first.input_shape[0]
    apart = height * -(-width * channels // lanes)
    beside = -(-height * width * channels // lanes)
    return height if beside < apart and height <= lanes else 1


def tensor_layout(stages: Sequence[Stage], tensor: int, lanes: int, shared: dict[int, Place]) -> TensorLayout:
    """Layout of the outputs of a stage, or of the sample, -1, with the `places` of those that share regions."""
    shape = _shape(stages, tensor)
    place = shared.get(tensor, Place((tensor,), 0, shape[0]))
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
    """Rows and columns that a stage reads beyond each side of a map, for itself or for windows of its pool."""
    top, bottom, left, right = beyond_map(stage)
    if tensor not in stage.source or isinstance(stage.layer, Linear):
        return top, bottom, left, right
    (down, across), padding = stage.layer.stride, stage.layer.padding
    beyond = top * down, bottom * down, left * across, right * across
    return tuple(own + more for own, more in zip(padding, beyond, strict=True))  # type: ignore[return-value]


def _readers(stages: Sequence[Stage], tensor: int) -> list[Stage]:
    """Stages that read or add a tensor."""
    return [stage for stage in stages if tensor in stage.reads]
