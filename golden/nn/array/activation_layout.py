"""Layout of tensors in the activation memory: the sample, and the outputs of every stage that others read.

A map is stored pixel by pixel with the channels side by side, within the zeros that its readers want around it: on
each side as many as the one that wants most. Where that saves words, and the first convolution is all that reads the
sample, its rows are stored as often side by side as the kernel has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...models.layers import Convolution, Linear, Sides
from ...models.stages import Stage
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
    if not isinstance(first.layer, Convolution) or other_readers or any(beyond_map(first)):
        return 1
    (height, width), channels = first.layer.kernel, first.input_shape[0]
    apart = height * -(-width * channels // lanes)
    beside = -(-height * width * channels // lanes)
    return height if beside < apart and height <= lanes else 1


def tensor_layout(stages: Sequence[Stage], tensor: int, lanes: int) -> TensorLayout:
    """Layout of the outputs of a stage, or of the sample, -1."""
    shape = stages[tensor].output_shape if tensor >= 0 else stages[0].input_shape
    if len(shape) == 1 or (tensor < 0 and not sample_is_map(stages)):
        return TensorLayout(1, prod(shape), 1, 0)
    channels, height, width = shape
    sides = [_read_beyond(stage, tensor) for stage in _readers(stages, tensor) if is_map(stage)]
    top, bottom, left, right = (max(side, default=0) for side in zip(*sides, strict=True)) if sides else (0,) * 4
    replicas = row_replicas(stages, lanes) if tensor < 0 else 1
    column = channels * replicas
    pitch = (width + left + right) * column
    rows = height + top + bottom
    if replicas > 1:
        first = stages[0]
        assert isinstance(first.layer, Convolution)
        rows = (computed_pixels(first)[0] - 1) * first.layer.stride[0] + 1
        pitch = -(-pitch // lanes) * lanes
    return TensorLayout(rows, pitch, column, top * pitch + left * column)


def _read_beyond(stage: Stage, tensor: int) -> Sides:
    """Rows and columns that a stage reads beyond each side of a map, for itself or for windows of its pool."""
    top, bottom, left, right = beyond_map(stage)
    if stage.source != tensor or isinstance(stage.layer, Linear):
        return top, bottom, left, right
    (down, across), padding = stage.layer.stride, stage.layer.padding
    beyond = top * down, bottom * down, left * across, right * across
    return tuple(own + more for own, more in zip(padding, beyond, strict=True))  # type: ignore[return-value]


def _readers(stages: Sequence[Stage], tensor: int) -> list[Stage]:
    """Stages that read or add a tensor."""
    return [stage for stage in stages if tensor in (stage.source, stage.residual)]
