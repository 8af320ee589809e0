"""Axes of a tensor in a user's model as parts of the elements, in order, of what a layer gives.

Views and permutations compute nothing: an axis behind them is still a run of elements with one distance between them,
or several such runs, one inside the other. A layer reads a tensor if its axes are those that the layer needs.
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
"""Number of elements, and the distance of each from the next."""
Axis = tuple[Run, ...]
"""Outer run first; empty for a size of 1."""
Axes = tuple[Axis, ...]


class Value(NamedTuple):
    """Tensor that depends on the sample.

    Parameters
    ----------
    layer : int
        Layer that gives it, -1 for the sample.
    shape : tuple of int
        Shape of what that layer gives.
    axes : tuple
        Its axes behind that of the batch, see `axes`.
    padding : tuple of int, optional
        Zeros around it, for the convolution that reads it.
    host : str
        What the host does to it: ``softmax``.
    place : Place, optional
        Of what pads it, or of what the host does.
    """

    layer: int
    shape: Shape
    axes: Axes
    padding: Sides | None = None
    host: str = ""
    place: Place | None = None

    @property
    def sizes(self) -> Shape:
        """Sizes of its axes."""
        return tuple(prod(size for size, _ in axis) for axis in self.axes)

    @property
    def in_order(self) -> bool:
        """Whether its elements are in the order in which the layer gives them."""
        return joined(self.runs) == joined([(prod(self.shape), 1)])

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs of all its axes, outer first."""
        return tuple(run for axis in self.axes for run in axis)


def joined(runs: Iterable[Run]) -> Axis:
    """Axis of these runs, in its one normal form: none of 1 element, and none that continues the next."""
    found: list[Run] = []
    for size, stride in runs:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = found[-1][0] * size, stride
        else:
            found.append((size, stride))
    return tuple(found)


def in_order(shape: Shape) -> Axes:
    """Axes of a tensor of this shape, the last one innermost."""
    found, stride = [], 1
    for size in reversed(shape):
        found.append(joined([(size, stride)]))
        stride *= size
    return tuple(reversed(found))


def reshaped(axes: Axes, shape: Shape) -> Axes | None:
    """Axes of a view in another shape; None if it cuts runs where they cannot be cut."""
    runs = list(joined(run for axis in axes for run in axis))
    found: list[Axis] = []
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
        found.append(joined(axis))
    return None if runs else tuple(found)


def channels_of(shape: Shape) -> Axis:
    """Channels of a layer's maps, or features of its vector."""
    return in_order(shape)[0]


def spatial(axes: Axes, shape: Shape) -> tuple[int, ...]:
    """Axes of a layer's maps, 1 for height and 2 for width, that a tensor has behind its channels; none if no map.

    Of a sample or a map of one dimension it is the one that is not 1, the width if both are.
    """
    if len(shape) == 3 and axes == in_order(shape):
        return 1, 2
    for axis, other in ((2, 1), (1, 2)):
        if len(shape) == 3 and shape[other] == 1 and axes == in_order((shape[0], shape[axis])):
            return (axis,)
    return ()


def window_over(axes: Iterable[Axis], shape: Shape) -> Pair | None:
    """Height and width of the windows that these axes of a map are together; None if they are no such windows."""
    if len(shape) != 3:
        return None
    runs = joined(sorted((run for axis in axes for run in axis), key=lambda run: -run[1]))
    _, height, width = shape
    windows = ((1, 1), (1, width), (height, 1), (height, width))
    return next((one for one in windows if runs == joined([(one[0], width), (one[1], 1)])), None)


def after_window(axis: Axis, shape: Shape, pooled: Shape) -> Axis:
    """Axis of a map behind a pool over whole axes of it, which are none of this one's."""
    old, new = (in_order_strides(one) for one in (shape, pooled))
    found: list[Run] = []
    for size, stride in axis:
        # a run over several of the map's axes is cut at their borders, and each part has the new distances
        inner = stride
        parts: list[Run] = []
        for number in (2, 1, 0):
            border = old[number] * shape[number]
            if inner < border and size > 1:
                count = min(size, border // inner)
                parts.append((count, inner // old[number] * new[number]))
                size, inner = size // count, inner * count
        found += reversed(parts)
    return joined(found)


def in_order_strides(shape: Shape) -> Shape:
    """Distance between neighbours on each axis of a tensor of this shape."""
    found = [1]
    for size in reversed(shape[1:]):
        found.append(found[-1] * size)
    return tuple(reversed(found))


def outer_first(runs: Sequence[Run]) -> tuple[int, ...]:
    """Numbers of runs by their distances, the largest first: the order in which the layer gives the elements."""
    return tuple(sorted(range(len(runs)), key=lambda at: -runs[at][1]))


def feature_order(axis: Axis) -> ElementOrder | None:
    """Way from a tensor with a value for each element of a vector to the layer's order; None where they are equal."""
    sizes, axes = tuple(size for size, _ in axis), outer_first(axis)
    features = (prod(sizes),)
    return None if axes == tuple(range(len(axis))) else ElementOrder(features, sizes, axes, features)


def placed(axes: tuple[int, ...], values: object, other: int) -> Pair:
    """Height and width of an operator's argument: one number, or one for each axis; `other` where it has no axis."""
    given = [values] if isinstance(values, int) else list(values)  # type: ignore[call-overload]
    if not all(isinstance(one, int) for one in given):
        raise UserError(f"{given} is computed from the samples")
    given = given * len(axes) if len(given) == 1 else given
    found = dict(zip(axes, given, strict=True))
    return found.get(1, other), found.get(2, other)


def with_height(shape: Shape) -> Shape:
    """Shape of a sample or of maps in descriptions: a signal (channels, length) is a map (channels, 1, length)."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape


def inverse(runs: Sequence[Run], shape: Shape) -> Axes:
    """Axes of a tensor of this shape whose elements stand in the order of these runs of it.

    Parameters
    ----------
    runs : sequence of Run
        All elements of the tensor, with distances in it, in the order of a layer.
    shape : tuple of int
        Shape of the tensor.
    """
    distances = in_order_strides(tuple(size for size, _ in runs))
    found = reshaped((joined((runs[at][0], distances[at]) for at in outer_first(runs)),), shape)
    assert found is not None, "runs are cut as the tensor's own axes are"
    return found
