"""Operators of any model as layers of a description; operators without a layer are refused at their place.

Two operators may become a single layer, as a product and the sum of a parameter. The layer is then added *instead of*
the earlier layer (`LayerGraph.add`), which stays for other readers. Existing layers are never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...models.activations import ActivationError, Made
from ...models.element_order import ElementOrder
from ...models.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Convolution,
    Depthwise,
    Linear,
    MaxPool,
    Pair,
    Shape,
    Sides,
    Weighted,
)
from ..graph import Arguments, Place, needed
from .axes import (
    Value,
    after_window,
    channels_of,
    feature_order,
    in_order,
    joined,
    outer_first,
    placed,
    reshaped,
    spatial,
    window_over,
)
from .graph import LayerGraph, Weight

Within = tuple[int, ...]
"""Axes of a tensor among height and width, see `axes.spatial`."""
FILLS = {0.0: "has hardware before a convolution only", -inf: "of -inf has hardware before a max-pool only"}
"""Values of a padding with hardware; why other operators refuse it."""


def read(place: Place, value: Any, fills: Collection[float] = (), host: bool = False) -> Value:
    """Argument that depends on the sample; refused with a host operation or a padding of values not in `fills`."""
    if not isinstance(value, Value):
        shown = value.shown if isinstance(value, Weight) else value
        raise place.error(f"reads {shown}, which is no output of a layer")
    by = value.place or place
    if value.padding is not None and value.fill not in fills:
        raise by.error(FILLS[value.fill])
    if value.host and not host:
        raise by.error("has no hardware but at the end, where the host does it")
    return value


def map_of(
    graph: LayerGraph, place: Place, source: Any, fills: Collection[float] = (), column: bool = False
) -> tuple[Value, Within]:
    """Argument as a map, with the present axes of height and width.

    With `column`, a map of a single row may also be seen as a column.
    """
    value = read(place, source, fills)
    if len(value.sizes) not in (2, 3):
        raise place.error(f"has an input of {value.sizes}, not (channels, height, width) or (channels, length)")
    if within := spatial(value.axes, value.shape):
        return value, within
    one_row = len(value.shape) == 3 and value.shape[1] == 1
    if column and one_row and value.axes == in_order((value.shape[0], value.shape[2], 1)):
        return value, (2, 1)
    graph.read_otherwise(value)
    raise place.error(
        f"reads {value.sizes}, which is another view of {value.shape}: as a map it has hardware in "
        "(channels, height, width) only"
    )


def _maps(value: Value, within: Within, shape: Shape) -> dict[str, Any]:
    """Arguments of `LayerGraph.put` for a layer from a map to maps with the same axes."""
    return {"sources": [value], "shape": shape, "axes": in_order((shape[0], *(shape[axis] for axis in within)))}


# -- layers with weights -----------------------------------------------------------------------------------------------


def convolution(
    graph: LayerGraph,
    place: Place,
    source: Any,
    weights: tuple[Weight, Weight | None],
    groups: int,
    stride: Sequence[int],
    padding: Sequence[Pair],
) -> Value:
    """Add a convolution.

    Parameters
    ----------
    weights : tuple
        Weight (outputs, inputs of a group, sizes of the kernel), and bias.
    stride : sequence of int
        A number, or a number per axis.
    padding : sequence of pair of int
        Zeros before and after each axis, added to the value's padding.
    """
    weight, bias = weights
    channels, inner, *sizes = weight.sizes
    if weight.axes != in_order(weight.sizes):
        raise place.error("has a weight whose axes are permuted")
    value = read(place, source, fills=(0.0,))
    constants = {"weight": weight, "bias": bias}
    plain = value.padding is None and not any(map(any, padding))
    if weight.sizes == (groups, 1, 1, 1) and value.sizes == (groups, 1, 1) and plain:
        return _scaled(graph, place, value, constants)
    value, within = map_of(graph, place, value, fills=(0.0,))
    if len(sizes) != len(within):
        form = "out, in, height, width" if len(within) == 2 else "out, in, size"
        raise place.error(f"has no weight of ({form})")
    kernel, steps = placed(within, sizes, 1), placed(within, stride, 1)
    if inner * groups != value.shape[0] or channels % groups:
        raise place.error(f"has a weight of {weight.sizes} and {groups} groups for {value.shape[0]} channels")
    if min(steps) < 1 or min(kernel) < 1:
        raise place.error(f"has a kernel of {kernel} and a stride of {steps}: both are 1 at least")
    if bias is not None and bias.sizes != (channels,):
        raise place.error(f"has a bias of {bias.sizes}, not of ({channels},)")
    around = _around(value, within, padding)
    if min(around) < 0:
        raise place.error(f"has a negative padding, {', '.join(map(str, around))}")
    layer: Convolution | Depthwise = Convolution(channels, kernel, around, steps, groups)
    if 1 < groups == channels == value.shape[0]:
        layer = Depthwise(kernel, around, steps)
    shape = channels, *_windows(value.shape, kernel, around, steps)
    if min(shape) < 1:
        raise place.error(f"has a kernel of {kernel}, which does not fit {value.shape} with a padding of {around}")
    order = None if len(within) == 2 else ElementOrder.reshaped(weight.sizes, (channels, inner, *kernel))
    return graph.put(place, layer, **_maps(value, within, shape), weights=constants, order=order)


def _windows(shape: Shape, size: Pair, padding: Sides, stride: Pair) -> tuple[int, int]:
    """Number of windows of a map, down and across."""
    beyond = sum(padding[:2]), sum(padding[2:])
    sides = zip(shape[1:], size, beyond, stride, strict=True)
    down, across = ((side + more - window) // step + 1 for side, window, more, step in sides)
    return down, across


def _around(value: Value, within: Within, padding: Sequence[Pair]) -> Sides:
    """Zeros around a map: the value's padding plus zeros before and after each axis."""
    by_axis = dict(zip(within, padding, strict=True))
    more = (*by_axis.get(1, (0, 0)), *by_axis.get(2, (0, 0)))
    return _together(value.padding, more)


def _together(padding: Sides | None, more: Sides) -> Sides:
    """Sum of two paddings."""
    top, bottom, left, right = (sum(pair) for pair in zip(padding or (0, 0, 0, 0), more, strict=True))
    return top, bottom, left, right


def _scaled(graph: LayerGraph, place: Place, value: Value, weights: dict[str, Weight | None]) -> Value:
    """Add a depthwise convolution of a vector seen as maps of 1 x 1."""
    if not spatial(value.axes, value.shape):
        if not value.in_order:
            raise place.error("reads the elements of a vector in another order")
        value = graph.flattened(place, value._replace(axes=(joined(value.runs),)))
    scaled = graph.put(place, Depthwise(1), [value], value.shape, (), weights)
    return graph.viewed(place, scaled._replace(axes=in_order((prod(value.shape), 1, 1))))


def vector_of(graph: LayerGraph, place: Place, source: Any) -> Value:
    """Argument as a vector, perhaps with another order of features than the layer's."""
    value = read(place, source)
    if len(value.axes) != 1:
        raise place.error(f"has an input of {value.sizes}: flatten it first")
    return graph.flattened(place, value)


def product(
    graph: LayerGraph, place: Place, source: Any, weight: Weight, bias: Weight | None, turned: bool = True
) -> Value:
    """Add a product of a vector and a matrix of (inputs, outputs); if not `turned`, of (outputs, inputs)."""
    value, shape = vector_of(graph, place, source), tuple(weight.tensor.shape)
    if len(shape) != 2:
        raise place.error(f"has a weight of {shape}, which is no matrix")
    if weight.axes != in_order(shape):
        turned = not turned
        if weight.axes != in_order(shape)[::-1]:
            raise place.error("has a weight that is another view of a matrix")
    inputs, outputs = shape if turned else shape[::-1]
    if value.sizes != (inputs,):
        raise place.error(f"has an input of {value.sizes} for a matrix of {inputs} rows")
    if bias is not None:
        added = each_channel(Value(-1, (outputs,), in_order((outputs,))), bias)
        if added is None:
            raise place.error(f"has a bias of {bias.sizes}, which is not one for each of {outputs} outputs")
        bias = added
    # the weight's columns follow the tensor's elements, whose order may differ from the layer's
    runs = value.axes[0]
    sizes, elements = tuple(size for size, _ in runs), outer_first(runs)
    order = None
    if turned:
        order = ElementOrder(shape, (*sizes, outputs), (len(sizes), *elements), (outputs, inputs))
    elif elements != tuple(range(len(runs))):
        order = ElementOrder(shape, (outputs, *sizes), (0, *(1 + axis for axis in elements)), (outputs, inputs))
    weights = {"weight": weight, "bias": bias}
    return graph.put(place, Linear(outputs), [value], (outputs,), in_order((outputs,)), weights, order)


def batch_norm(graph: LayerGraph, place: Place, source: Any, weights: dict[str, Weight | None], eps: float) -> Value:
    """Add a batch norm with running statistics."""
    value, order = read(place, source), None
    if len(value.axes) == 1:
        value = graph.flattened(place, value)
        order = feature_order(value.axes[0])
    elif value.layer < 0:
        value, _ = map_of(graph, place, value)
    elif value.axes[0] != channels_of(value.shape):
        raise place.error(f"reads {value.sizes}, whose channels are not those of a layer")
    if any(weight is not None and weight.sizes != value.sizes[:1] for weight in weights.values()):
        raise place.error(f"has no four constants of {value.sizes[0]} channels")
    return graph.put(place, BatchNorm(), [value], value.shape, value.axes, weights, order, eps)


# -- activations and pools ---------------------------------------------------------------------------------------------


def activation(graph: LayerGraph, place: Place, arguments: Arguments, made: Made) -> Value:
    """Add the activation of an operator: the first argument is the input, others are numbers or absent."""
    (source,) = arguments.first(1)

    def number(name: str) -> Any:
        argument = arguments.get(name)
        if argument is None or isinstance(argument, int | float):
            return argument
        return float(needed(place, name, argument).tensor.reshape(()))

    try:
        layer = made(number)
    except ActivationError as reason:
        raise place.error(str(reason)) from None
    value = read(place, source)
    return graph.put(place, layer, [value], value.shape, value.axes)


def pool(
    graph: LayerGraph,
    place: Place,
    read_map: tuple[Value, Within],
    kind: type[AveragePool | MaxPool],
    size: Pair,
    stride: Pair,
    padding: Sides = (0, 0, 0, 0),
    ceil_mode: bool = False,
) -> Value:
    """Add a pool over a map from `map_of`."""
    value, within = read_map
    shape = value.shape
    if any(padding) and kind is AveragePool:
        raise place.error(f"has a padding of {padding} (top, bottom, left, right), not 0")
    if min(stride) < 1 or min(size) < 1:
        raise place.error(f"has a kernel of {size} and a stride of {stride}: both are 1 at least")
    if ceil_mode:
        padding = _rounded_up(value.padded, size, padding, stride)
        if any(padding) and kind is AveragePool:
            raise place.error("has ceil_mode, which has no hardware")
    padding = _together(value.padding, padding)
    if size == (1, 1) and not any(padding):
        if stride != (1, 1):
            raise place.error(f"has windows of 1 x 1 with a stride of {stride}: it skips values, which has no hardware")
        return value
    down, across = _windows(shape, size, padding, stride)
    if min(down, across) < 1 or (within == (2, 1) and down != 1):
        raise place.error(f"has windows of {size}, which do not fit {shape} with a padding of {padding}")
    if kind is AveragePool and size not in (stride, shape[1:]):
        raise place.error(f"has a stride of {stride}, not that of its size {size}")
    layer = AveragePool(size) if kind is AveragePool else MaxPool(size, stride, padding)
    return graph.put(place, layer, **_maps(value, within, (shape[0], down, across)))


def _rounded_up(shape: Shape, size: Pair, padding: Sides, stride: Pair) -> Sides:
    """Padding that gives the same windows as ceil_mode; no window starts beyond the map."""
    rounded = list(padding)
    for axis, (side, window, step) in enumerate(zip(shape[1:], size, stride, strict=True)):
        before, after = padding[2 * axis : 2 * axis + 2]
        windows = -(-(side + before + after - window) // step) + 1
        windows -= (windows - 1) * step >= side + before
        rounded[2 * axis + 1] = max(after, (windows - 1) * step + window - side - before)
    return rounded[0], rounded[1], rounded[2], rounded[3]


def reduced(
    graph: LayerGraph, place: Place, source: Any, dims: Sequence[int], keep: bool, kind: type[AveragePool | MaxPool]
) -> Value:
    """Add a mean or maximum over whole axes of a map, in any view of the map."""
    value = read(place, source)
    rank = len(value.axes) + 1
    over = sorted({number % rank for number in dims})
    window = window_over([value.axes[number - 1] for number in over if number], value.shape)
    if not over or over[0] == 0 or window is None:
        raise place.error(f"is over {over}, not over a map's height and width")
    pooled = value.shape[0], value.shape[1] // window[0], value.shape[2] // window[1]
    axes = tuple(
        () if number in over else after_window(axis, value.shape, pooled)
        for number, axis in enumerate(value.axes, start=1)
        if keep or number not in over
    )
    if window == (1, 1):
        return graph.viewed(place, value._replace(axes=axes))
    return graph.viewed(place, graph.put(place, kind(window), [value], pooled, axes))


# -- views -------------------------------------------------------------------------------------------------------------


def viewed(graph: LayerGraph, place: Place, source: Any, shape: Shape | None, shown: str) -> Value:
    """View of a value in another shape, without the batch; refused if impossible."""
    value = read(place, source, host=True)
    fits = shape is not None and min(shape, default=1) > 0 and prod(shape) == prod(value.sizes)
    axes = reshaped(value.axes, shape) if fits and shape is not None else None
    if axes is None or not shape:
        raise place.error(f"from {value.sizes} to {shown} does not keep each sample for itself")
    return graph.viewed(place, value._replace(axes=axes))


def permuted(graph: LayerGraph, place: Place, source: Any, turn: Sequence[int]) -> Value:
    """View of a value with permuted axes; the batch stays first."""
    value = read(place, source, host=True)
    if [*turn][:1] != [0] or sorted(turn) != list(range(len(value.axes) + 1)):
        raise place.error(f"by {[*turn]} of {value.sizes} has no hardware: it moves the samples of a batch")
    return graph.viewed(place, value._replace(axes=tuple(value.axes[axis - 1] for axis in turn[1:])))


def padded(
    graph: LayerGraph,
    place: Place,
    source: Any,
    ends: Sequence[int],
    sides: dict[int, tuple[int, int]],
    fill: float | str,
) -> Value:
    """Map with zeros around, for a following convolution, or with -inf, for a max-pool.

    Parameters
    ----------
    ends : sequence of int
        Numbers of added values for messages.
    sides : dict of int to pair of int
        Numbers of added values by axis; the batch is axis 0.
    fill : float or str
        The value, or for messages a mode without one.
    """
    if isinstance(fill, str) or fill not in FILLS:
        raise place.error(f"pads with {fill}, not with zeros")
    if min(ends, default=0) < 0:
        raise place.error(f"has a negative padding, {[*ends]}")
    value, within = map_of(graph, place, source, fills=(fill,))
    if any(any(pair) for axis, pair in sides.items() if not 2 <= axis < 2 + len(within)):
        raise place.error(f"pads more than height and width, {[*ends]}")
    padding = _around(value, within, [sides.get(axis, (0, 0)) for axis, _ in enumerate(within, start=2)])
    return value._replace(padding=padding, fill=fill, place=place) if any(padding) else value


# -- sums, products, concatenations ------------------------------------------------------------------------------------


def added(graph: LayerGraph, place: Place, first: Any, second: Any) -> Value:
    """Add a sum of two tensors of equal shape and order, or of a tensor and a constant: a bias."""
    if isinstance(first, Weight):
        first, second = second, first
    value = read(place, first)
    if isinstance(second, Weight):
        return _biased(graph, place, value, second)
    other = read(place, second)
    if value.sizes != other.sizes:
        raise place.error(f"adds {other.sizes} to {value.sizes}: only tensors of equal shape are added")
    if value.axes != other.axes:
        raise place.error("adds tensors whose values are in different orders, by a permutation of one of them")
    if value.shape != other.shape:
        value, other = graph.flattened(place, value), graph.flattened(place, other)
    return graph.put(place, Add(), [value, other], value.shape, value.axes)


def _biased(graph: LayerGraph, place: Place, value: Value, constant: Weight) -> Value:
    """Output of a layer plus a constant: a copy of the layer with another bias.

    The original layer stays for other readers. A named tensor must be the only bias.
    """
    before = graph.layers[value.layer] if value.layer >= 0 else None
    known = Weighted if constant.name else Weighted | BatchNorm
    if before is None or not isinstance(before.layer, known) or (constant.name and "bias" in before.tensors):
        other = "has a bias already, or is no layer with weights" if constant.name else "no layer with weights gives"
        raise place.error(f"adds {constant.shown} to what {other}, which has no hardware")
    bias = each_channel(value, constant)
    if bias is None:
        raise place.error(
            f"adds {constant.shown} of {constant.sizes} to {value.sizes}: only one value for each channel has hardware"
        )
    old_bias = before.tensors.get("bias")
    tensors = {**before.tensors, "bias": bias.tensor if old_bias is None else old_bias + bias.tensor}
    names = {**before.names, "bias": bias.name} if bias.name else before.names
    where = replace(place.of_layer, title=before.place.title)
    number = graph.add(replace(before, tensors=tensors, names=names, place=where), value.layer)
    return graph.gives(number, value.shape, value.axes)


def per_channel(value: Value, array: NDArray[Any]) -> NDArray[Any] | None:
    """Constant addend or factor as a number per channel; None if values differ within a channel."""
    sizes = (1,) * (1 + len(value.sizes) - array.ndim) + array.shape
    if array.ndim > 1 + len(value.sizes) or any(
        size not in (1, length) for size, length in zip(sizes, (1, *value.sizes), strict=True)
    ):
        return None
    spread = np.broadcast_to(array.reshape(sizes)[0], value.sizes).reshape([size for size, _ in value.runs])
    rows = spread.transpose(outer_first(value.runs)).reshape(value.shape[0], -1)
    return rows[:, 0] if (rows == rows[:, :1]).all() else None


def each_channel(value: Value, constant: Weight) -> Weight | None:
    """Constant as a number per channel; a named tensor must already have this form."""
    count = constant.tensor.numel()
    indices = per_channel(value, constant.viewed(np.arange(count)))
    if indices is not None and np.array_equal(indices, range(count)):
        return replace(constant, tensor=constant.tensor.reshape(-1), axes=in_order((count,)))
    numbers = None if constant.name else per_channel(value, constant.array)
    if numbers is None:
        return None
    return Weight(torch.from_numpy(numbers.astype(np.float32)), axes=in_order(numbers.shape))


def multiplied(graph: LayerGraph, place: Place, source: Any, factors: Weight) -> Value:
    """Add a product of a tensor and a constant, with a factor per channel: a depthwise convolution of 1 x 1."""
    value = read(place, source)
    value = graph.flattened(place, value) if len(value.axes) == 1 else value
    unnamed = replace(factors, name="")
    per_channel_factors = each_channel(value, unnamed)
    if per_channel_factors is None:
        raise place.error(
            f"multiplies {value.sizes} by a constant of {factors.sizes}: only one value for each channel has hardware"
        )
    shape, order = (*per_channel_factors.sizes, 1, 1, 1), None
    if per_channel_factors.tensor.data_ptr() == factors.tensor.data_ptr():  # the constant itself, in another shape
        order = ElementOrder.reshaped(factors.sizes, shape)
    else:
        factors = replace(unnamed, tensor=per_channel_factors.tensor.reshape(shape))
    return graph.put(place, Depthwise(1), [value], value.shape, value.axes, {"weight": factors}, order)


def concatenation(graph: LayerGraph, place: Place, sources: Sequence[Any], axis: int) -> Value:
    """Add a concatenation of channels or of features."""
    values = [read(place, value) for value in sources]
    values = [graph.flattened(place, value) if len(value.axes) == 1 else value for value in values]
    first, number = values[0], axis % (1 + len(values[0].axes)) - 1
    if len(values) == 1:
        return first
    others = {(value.axes[:number], value.axes[number + 1 :], value.shape[1:]) for value in values}
    if number < 0 or len(others) > 1 or any(value.axes[number] != channels_of(value.shape) for value in values):
        shapes = ", ".join(str(value.sizes) for value in values)
        raise place.error(f"of {shapes} along the axis {axis} has hardware along the channels of maps only")
    shape = (sum(value.shape[0] for value in values), *first.shape[1:])
    axes = (*first.axes[:number], channels_of(shape), *first.axes[number + 1 :])
    return graph.put(place, Concat(), values, shape, axes)


def softmax(place: Place, source: Any, axis: int, kind: str) -> Value:
    """Softmax of the logits, left to the host because it does not affect decisions."""
    value = read(place, source)
    if len(value.sizes) != 1 or axis not in (1, -1):
        raise place.error(
            f"of {value.sizes} over the axis {axis} has no hardware: a network gives logits, and the softmax over the "
            "classes is left to the host"
        )
    return value._replace(host=kind, place=place)
