"""Axes of a tensor in a user's model, as runs of elements in a layer's output.

Views and permutations compute nothing. After them an axis is still a run of elements with a constant distance, or
several nested runs. A layer can read a tensor with the right axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from ...errors import UserError
from ...models.element_order import ElementOrder
from ...models.layers import Pair, Shape, Sides
from ..graph import Place

Run = tuple[int, int]
"""Number of elements, and the distance between neighbours."""
Axis = tuple[Run, ...]
"""Outer run first; empty for a size of 1."""
Axes = tuple[Axis, ...]


class Value(NamedTuple):
    """Tensor that depends on the sample.

    Parameters
    ----------
    layer : int
        Layer with this output, -1 for the sample.
    shape : tuple of int
        Output shape of the layer.
    axes : tuple
        Axes of the tensor without the batch.
    padding : tuple of int, optional
        Rows and columns around the tensor, for the following operator.
    fill : float
        Value of the padding.
    host : str
        Operation on the tensor left to the host: ``softmax``.
    place : Place, optional
        Place of the padding or of the host's operation.
    """

    layer: int
    shape: Shape
    axes: Axes
    padding: Sides | None = None
    fill: float = 0.0
    host: str = ""
    place: Place | None = None

    @property
    def sizes(self) -> Shape:
        return tuple(prod(size for size, _ in axis) for axis in self.axes)

    @property
    def padded(self) -> Shape:
        """Shape of the layer's output, a map, with the padding."""
        top, bottom, left, right = self.padding or (0, 0, 0, 0)
        channels, height, width = self.shape
        return channels, top + height + bottom, left + width + right

    @property
    def in_order(self) -> bool:
        """True if the elements are in the order of the layer's output."""
        return joined(self.runs) == joined([(prod(self.shape), 1)])

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs of all axes, outer first."""
        return tuple(run for axis in self.axes for run in axis)


def joined(runs: Iterable[Run]) -> Axis:
    """Axis of runs in normal form: without runs of 1 element, and with adjacent runs merged."""
    merged: list[Run] = []
    for size, stride in runs:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = merged[-1][0] * size, stride
        else:
            merged.append((size, stride))
    return tuple(merged)


def in_order(shape: Shape) -> Axes:
    """Axes of a tensor of this shape in row-major order."""
    axes, stride = [], 1
    for size in reversed(shape):
        axes.append(joined([(size, stride)]))
        stride *= size
    return tuple(reversed(axes))


def reshaped(axes: Axes, shape: Shape) -> Axes | None:
    """Axes of a view in another shape; None if a run cannot be split accordingly."""
    runs = list(joined(run for axis in axes for run in axis))
    split: list[Axis] = []
    for wanted in shape:
        axis: list[Run] = []
        while wanted > 1:
            if not runs:
                return None
            size, stride = runs.pop(0)
            if wanted % size == 0:
                axis.append((size, stride))
                wanted //= size
            elif size % wanted == 0:
                axis.append((wanted, size // wanted * stride))
                runs.insert(0, (size // wanted, stride))
                wanted = 1
            else:
                return None
        split.append(joined(axis))
    return None if runs else tuple(split)


def channels_of(shape: Shape) -> Axis:
    """Channels of a layer's maps, or features of its vector."""
    return in_order(shape)[0]


def spatial(axes: Axes, shape: Shape) -> tuple[int, ...]:
    """Axes of a layer's maps after the channels, 1 for height and 2 for width; empty if the tensor is no map.

    One-dimensional maps have the axis with a size other than 1; the width if both are 1.
    """
    if len(shape) == 3 and axes == in_order(shape):
        return 1, 2
    for axis, other in ((2, 1), (1, 2)):
        if len(shape) == 3 and shape[other] == 1 and axes == in_order((shape[0], shape[axis])):
            return (axis,)
    return ()


def window_over(axes: Iterable[Axis], shape: Shape) -> Pair | None:
    """Height and width of the windows formed by axes of a map; None without windows."""
    if len(shape) != 3:
        return None
    runs = joined(sorted((run for axis in axes for run in axis), key=lambda run: -run[1]))
    _, height, width = shape
    windows = ((1, 1), (1, width), (height, 1), (height, width))
    return next((size for size in windows if runs == joined([(size[0], width), (size[1], 1)])), None)


def after_window(axis: Axis, shape: Shape, pooled: Shape) -> Axis:
    """Axis of a map after a pool over other, whole axes."""
    old, new = (in_order_strides(sizes) for sizes in (shape, pooled))
    new_runs: list[Run] = []
    for size, stride in axis:
        # a run over several axes of the map is split at their borders; each part gets a new distance
        inner = stride
        parts: list[Run] = []
        for number in (2, 1, 0):
            border = old[number] * shape[number]
            if inner < border and size > 1:
                count = min(size, border // inner)
                parts.append((count, inner // old[number] * new[number]))
                size, inner = size // count, inner * count
        new_runs += reversed(parts)
    return joined(new_runs)


def in_order_strides(shape: Shape) -> Shape:
    """Distance between neighbours on each axis of a row-major tensor of this shape."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def outer_first(runs: Sequence[Run]) -> tuple[int, ...]:
    """Indices of runs by decreasing distance: the order of the elements in the layer's output."""
    return tuple(sorted(range(len(runs)), key=lambda index: -runs[index][1]))


def feature_order(axis: Axis) -> ElementOrder | None:
    """Order that maps a vector with axes to the layer's order; None if both are equal."""
    sizes, axes = tuple(size for size, _ in axis), outer_first(axis)
    features = (prod(sizes),)
    return None if axes == tuple(range(len(axis))) else ElementOrder(features, sizes, axes, features)


def placed(axes: tuple[int, ...], values: object, other: int) -> Pair:
    """Height and width of an operator's argument, a number or a number per axis; `other` for a missing axis."""
    numbers = [values] if isinstance(values, int) else list(values)  # type: ignore[call-overload]
    if not all(isinstance(number, int) for number in numbers):
        raise UserError(f"{numbers} is computed from the samples")
    numbers = numbers * len(axes) if len(numbers) == 1 else numbers
    by_axis = dict(zip(axes, numbers, strict=True))
    return by_axis.get(1, other), by_axis.get(2, other)


def with_height(shape: Shape) -> Shape:
    """Shape of a sample or of maps in descriptions: a signal (channels, length) is a map (channels, 1, length)."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def inverse(runs: Sequence[Run], shape: Shape) -> Axes:
    """Axes of a tensor of `shape` in a layer's output with the order of the runs.

    `runs` has all elements of the tensor, with their distances in the tensor, in the order of the layer's output.
    """
    distances = in_order_strides(tuple(size for size, _ in runs))
    axes = reshaped((joined((runs[index][0], distances[index]) for index in outer_first(runs)),), shape)
    assert axes is not None, "runs are cut as the tensor's own axes are"
    return axes
