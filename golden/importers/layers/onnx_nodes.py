"""Nodes of an ONNX graph, each as a layer of a description or refused by its name."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...models.element_order import ElementOrder
from ...models.layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Convolution,
    Depthwise,
    Layer,
    Linear,
    MaxPool,
    Pair,
    Relu,
    Shape,
    Sides,
)
from .axes import Value, after_window, channels_of, feature_order, in_order, joined, outer_first, placed, window_over
from .graph import Place
from .onnx_constants import Array, Attributes
from .onnx_graph import FLOAT, Handler, OnnxGraph, per_channel

if TYPE_CHECKING:
    import onnx


def _both(given: Attributes, name: str, axes: tuple[int, ...], place: Place) -> Pair:
    """Attribute of one number for each axis, as one for height and one for width; 1 where it is left out."""
    values = list(given.get(name, (1,) * len(axes)))
    if len(values) != len(axes):
        raise place.error(f"has {name} of {values} for {len(axes)} axes")
    return placed(axes, values, 1)


def _window(given: Attributes, sides: Pair, kernel: Pair, axes: tuple[int, ...], place: Place) -> tuple[Sides, Pair]:
    """Padding and stride of a convolution or a pool.

    Parameters
    ----------
    given : mapping
        Attributes.
    sides : (height, width)
        Of the map as it is padded before.
    kernel : (height, width)
    axes : tuple of int
        Which of height and width the node has, see `axes.spatial`.
    place : Place
    """
    stride = _both(given, "strides", axes, place)
    if _both(given, "dilations", axes, place) != (1, 1):
        raise place.error(f"has dilations of {given['dilations']}, not 1")
    if min(stride) < 1 or min(kernel) < 1:
        raise place.error(f"has a kernel of {kernel} and a stride of {stride}: both are 1 at least")
    pads = list(given.get("pads", (0,) * 2 * len(axes)))
    if len(pads) != 2 * len(axes):
        raise place.error(f"has pads of {pads} for {len(axes)} axes")
    (top, left), (bottom, right) = placed(axes, pads[: len(axes)], 0), placed(axes, pads[len(axes) :], 0)
    kind = given.get("auto_pad", b"NOTSET").decode()
    if kind not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or (kind != "NOTSET" and any(pads)):
        raise place.error(f"has the auto_pad {kind}" + (" and pads as well" if any(pads) else ""))
    if kind.startswith("SAME"):
        totals = [
            max((-(-side // step) - 1) * step + size - side, 0)
            for side, size, step in zip(sides, kernel, stride, strict=True)
        ]
        less, more = [total // 2 for total in totals], [-(-total // 2) for total in totals]
        (top, left), (bottom, right) = (less, more) if kind == "SAME_UPPER" else (more, less)
    if min(top, left, bottom, right) < 0:
        raise place.error(f"has a negative padding, {top}, {left}, {bottom}, {right}")
    return (top, bottom, left, right), stride


def _size(side: int, kernel: int, padding: int, stride: int) -> int:
    return (side + padding - kernel) // stride + 1


def _conv(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.map(node, place, padded=True)
    shape, before = value.shape, value.padding or (0, 0, 0, 0)
    weight, bias = graph.weight(node, place), graph.floats(node, 2, place)
    if weight is None or weight.ndim != 2 + len(axes):
        form = "out, in, height, width" if len(axes) == 2 else "out, in, size"
        raise place.error(f"has no weight of ({form})")
    channels, inner, *sizes = weight.shape
    kernel = placed(axes, sizes, 1)
    groups = given.get("group", 1)
    if inner * groups != shape[0] or tuple(given.get("kernel_shape", sizes)) != tuple(sizes):
        raise place.error(f"has a weight of {weight.shape} and {groups} groups for {shape[0]} channels")
    if bias is not None and bias.shape != (channels,):
        raise place.error(f"has a bias of {bias.shape}, not of ({channels},)")
    padded = shape[1] + before[0] + before[1], shape[2] + before[2] + before[3]
    padding, stride = _window(given, padded, kernel, axes, place)
    padding = tuple(own + more for own, more in zip(padding, before, strict=True))  # type: ignore[assignment]
    if channels % groups:
        raise place.error(f"has {channels} outputs, which are not {groups} groups")
    layer: Layer = Convolution(channels, kernel, padding, stride, groups)
    if 1 < groups == channels == shape[0]:
        layer = Depthwise(kernel, padding, stride)
    down = _size(shape[1], kernel[0], padding[0] + padding[1], stride[0])
    across = _size(shape[2], kernel[1], padding[2] + padding[3], stride[1])
    if min(down, across) < 1:
        raise place.error(f"has a kernel of {kernel}, which does not fit {shape} with a padding of {padding}")
    order = None if len(axes) == 2 else ElementOrder.reshaped(weight.shape, (channels, inner, *kernel))
    arrays = {"weight": weight, "bias": bias}
    outputs = channels, down, across
    return graph.maps(layer, value, place, outputs, axes, arrays=arrays, name=graph.own_name(node), order=order)


def _gemm(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    if given.get("transA", 0):
        raise place.error("has transA: its first input is turned, and no vector for each sample")
    return _linear(graph, node, bool(given.get("transB", 0)), given, graph.floats(node, 2, place), place)


def _matmul(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    return _linear(graph, node, False, given, None, place)


def _linear(
    graph: OnnxGraph, node: onnx.NodeProto, turned: bool, given: Attributes, bias: Array | None, place: Place
) -> Value:
    """Product of a vector and a matrix, which is (out, in) if `turned`.

    Features in another order than that of the layer before are put into it in the columns of the weight.
    """
    value = graph.vector(node, 0, place)
    weight = graph.weight(node, place)
    if weight is None or weight.ndim != 2:
        raise place.error("is no product of a vector and a constant matrix")
    features, inputs = weight.shape if turned else weight.shape[::-1]
    if value.sizes != (inputs,):
        raise place.error(f"has an input of {value.sizes} for a matrix of {inputs} rows")
    own, back = tuple(size for size, _ in value.runs), outer_first(value.runs)
    if turned:
        sizes, axes = (features, *own), (0, *(1 + axis for axis in back))
    else:
        sizes, axes = (*own, features), (len(own), *back)
    order = ElementOrder(weight.shape, sizes, axes, (features, inputs))
    alpha, beta = (np.float32(given.get(name, 1.0)) for name in ("alpha", "beta"))
    if bias is not None:
        given_bias = bias.shape
        bias = per_channel(Value(-1, (features,), in_order((features,))), bias)
        if bias is None:
            raise place.error(f"has a bias of {given_bias}, which is not one for each of {features} outputs")
        bias = bias * beta
    name = graph.own_name(node) if alpha == 1 else None
    arrays = {"weight": weight * alpha, "bias": bias}
    changed = None if turned and value.in_order else order
    outputs = (features,)
    return graph.add(Linear(features), (value,), place, outputs, in_order(outputs), arrays, name, changed)


def _norm(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    # before opset 14 the number of outputs says whether it trains
    trains = len(node.output) > 1 if graph.opset < 14 else given.get("training_mode", 0)
    if trains or given.get("spatial", 1) != 1:
        raise place.error("takes the statistics of a batch, not constant ones")
    names = ("weight", "bias", "running_mean", "running_var")
    arrays = {kind: graph.floats(node, at, place) for at, kind in enumerate(names, start=1)}
    channels = value.sizes[0]
    if any(one is None or one.shape != (channels,) for one in arrays.values()):
        raise place.error(f"has no four constants of {channels} channels")
    if len(value.sizes) == 1:
        value = graph.flattened(value, place)
        if (order := feature_order(value.axes[0])) is not None:
            arrays = {kind: None if one is None else order.taken(one) for kind, one in arrays.items()}
    elif value.layer < 0:
        value, _ = graph.map(node, place)
    if len(value.sizes) > 1 and value.axes[0] != channels_of(value.shape):
        raise place.error(f"reads {value.sizes}, whose channels a Transpose or a Reshape has made of others")
    eps = given.get("epsilon", 1e-5)
    return graph.add(BatchNorm(), (value,), place, value.shape, value.axes, arrays, eps=eps)


def _relu(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    return graph.each(Relu(), value, place)


def _leaky_relu(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    # the decimal number that float32 stands for
    slope = float(str(np.float32(given.get("alpha", 0.01))))
    return graph.each(Relu(slope=slope), value, place)


def _clip(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    ends = [given.get(name, graph.constant(node, at, place)) for at, name in ((1, "min"), (2, "max"))]
    least, most = (None if one is None else float(np.asarray(one).reshape(())) for one in ends)
    if least != 0:
        raise place.error(f"clips from {least} to {most}, not from 0")
    return graph.each(Relu(most), value, place)


def _pool(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.map(node, place, column=True)
    shape = value.shape
    size = _both(given, "kernel_shape", axes, place)
    padding, stride = _window(given, (shape[1], shape[2]), size, axes, place)
    if any(padding) and node.op_type != "MaxPool":
        raise place.error(f"has a padding of {padding} (top, bottom, left, right), not 0")
    if given.get("ceil_mode", 0):
        padding = _rounded_up(shape, size, padding, stride)
        if any(padding) and node.op_type != "MaxPool":
            raise place.error("has ceil_mode, which has no hardware")
    if size == (1, 1) and not any(padding):
        if stride != (1, 1):
            raise place.error(f"has windows of 1 x 1 with a stride of {stride}: it skips values, which has no hardware")
        return value
    beyond = sum(padding[:2]), sum(padding[2:])
    steps = zip(shape[1:], size, beyond, stride, strict=True)
    down, across = (_size(side, own, more, step) for side, own, more, step in steps)
    if min(down, across) < 1 or (axes == (2, 1) and down != 1):
        raise place.error(f"has windows of {size}, which do not fit {shape} with a padding of {padding}")
    if node.op_type == "MaxPool":
        return graph.maps(MaxPool(size, stride, padding), value, place, (shape[0], down, across), axes)
    if size not in (stride, shape[1:]):
        raise place.error(f"has a stride of {stride}, not that of its size {size}")
    return graph.maps(AveragePool(size), value, place, (shape[0], down, across), axes)


def _rounded_up(shape: Shape, size: Pair, padding: Sides, stride: Pair) -> Sides:
    """Padding with which windows reach as far as with ceil_mode; none begins behind the map."""
    found = list(padding)
    for at, (side, own, step) in enumerate(zip(shape[1:], size, stride, strict=True)):
        before, behind = padding[2 * at : 2 * at + 2]
        windows = -(-(side + before + behind - own) // step) + 1
        windows -= (windows - 1) * step >= side + before
        found[2 * at + 1] = max(behind, (windows - 1) * step + own - side - before)
    return found[0], found[1], found[2], found[3]


def _global(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.map(node, place)
    channels, *sides = value.shape
    if max(sides) == 1:
        return value
    kind = MaxPool if node.op_type == "GlobalMaxPool" else AveragePool
    return graph.maps(kind((sides[0], sides[1])), value, place, (channels, 1, 1), axes)


def _mean(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Mean or largest value over whole axes of a map, in any view of it."""
    value, axes = graph.read(node, 0, place), graph.constant(node, 1, place)
    rank = len(value.sizes) + 1
    over = {int(one) % rank for one in given.get("axes", [] if axes is None else axes.tolist())}
    window = window_over([value.axes[at - 1] for at in sorted(over - {0})], value.shape)
    if 0 in over or not over or window is None:
        raise place.error(f"is over {sorted(over)}, not over height and width")
    kept = [at for at in range(1, rank) if at not in over or given.get("keepdims", 1)]
    channels, height, width = value.shape
    pooled = channels, height // window[0], width // window[1]
    own = tuple(() if at in over else after_window(value.axes[at - 1], value.shape, pooled) for at in kept)
    if window == (1, 1):
        return value._replace(axes=own)
    layer = (MaxPool if node.op_type == "ReduceMax" else AveragePool)(window)
    return graph.add(layer, (value,), place, pooled, own)


def _flatten(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    axis = given.get("axis", 1)
    at = axis + len(value.sizes) + 1 if axis < 0 else axis
    if at < 1 or prod(value.sizes[: at - 1]) != 1:
        raise place.error(f"has the axis {axis}, not 1: it does not keep each sample for itself")
    return value._replace(axes=(joined(value.runs),))


def _reshape(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, target = graph.read(node, 0, place), graph.constant(node, 1, place)
    if target is None or target.ndim != 1:
        raise place.error("has no shape")
    return graph.reshaped(value, [int(one) for one in target], place, bool(given.get("allowzero", 0)))


def _squeeze(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.read(node, 0, place), graph.constant(node, 1, place)
    rank = len(value.sizes) + 1
    dims = {int(one) % rank for one in given.get("axes", [] if axes is None else axes.tolist())}
    if not dims or 0 in dims or any(value.axes[at - 1] for at in dims):
        raise place.error(f"of {value.sizes} drops the axes {sorted(dims)}: give those of one value, without the batch")
    return value._replace(axes=tuple(axis for at, axis in enumerate(value.axes, start=1) if at not in dims))


def _unsqueeze(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.read(node, 0, place), graph.constant(node, 1, place)
    found = given.get("axes", [] if axes is None else axes.tolist())
    rank = len(value.axes) + 1 + len(found)
    dims = {int(one) % rank for one in found}
    if 0 in dims or len(dims) != len(found):
        raise place.error(f"adds the axes {found}: the batch is the first axis, and stays it")
    own = iter(value.axes)
    return value._replace(axes=tuple(() if at in dims else next(own) for at in range(1, rank)))


def _transpose(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.read(node, 0, place)
    order = list(given.get("perm", range(len(value.axes), -1, -1)))
    if order[:1] != [0] or sorted(order) != list(range(len(value.axes) + 1)):
        raise place.error(f"by {order} of {value.sizes} has no hardware: it mixes samples")
    return value._replace(axes=tuple(value.axes[at - 1] for at in order[1:]))


def _pad(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, within = graph.map(node, place, padded=True)
    pads, filled, axes = (graph.constant(node, at, place) for at in (1, 2, 3))
    ends = [int(one) for one in (given.get("pads", []) if pads is None else pads)]
    amount = given.get("value", 0.0) if filled is None else float(filled.reshape(()))
    if given.get("mode", b"constant") != b"constant" or amount:
        raise place.error("pads with something other than zeros")
    rank = len(value.axes) + 1
    dims = list(range(rank)) if axes is None else [int(one) % rank for one in axes]
    if len(ends) != 2 * len(dims) or len(set(dims)) != len(dims):
        raise place.error(f"has pads of {ends} for the axes {dims}")
    sides = {axis: (ends[at], ends[at + len(dims)]) for at, axis in enumerate(dims)}
    if any(any(sides.get(axis, ())) for axis in (0, 1)):
        raise place.error(f"has pads of {ends}: it pads the batch or the channels")
    own = {axis: sides.get(at, (0, 0)) for at, axis in enumerate(within, start=2)}
    (top, bottom), (left, right) = own.get(1, (0, 0)), own.get(2, (0, 0))
    if min(top, bottom, left, right) < 0:
        raise place.error(f"has pads of {ends}: none may be negative")
    more = zip(value.padding or (0, 0, 0, 0), (top, bottom, left, right), strict=True)
    found = tuple(one + two for one, two in more)
    return value._replace(padding=found if any(found) else None)  # type: ignore[arg-type]


def _sum(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Sum of tensors of equal shape and order, or of a tensor and a constant, which is a bias."""
    known = [at for at, name in enumerate(node.input) if graph.is_value(name)]
    found = graph.read(node, known[0], place)
    for at in known[1:]:
        found = _added(graph, found, graph.read(node, at, place), place)
    for at in range(len(node.input)):
        if at not in known:
            constant = graph.floats(node, at, place)
            assert constant is not None, "the operator's inputs are all there"
            found = graph.biased(found, constant, place)
    return found


def _added(graph: OnnxGraph, first: Value, second: Value, place: Place) -> Value:
    if first.sizes != second.sizes:
        raise place.error(f"adds {second.sizes} to {first.sizes}: only tensors of equal shape are added")
    if first.axes != second.axes:
        raise place.error("adds tensors whose values are in different orders, by a Transpose of one of them")
    if first.shape != second.shape:
        first, second = graph.flattened(first, place), graph.flattened(second, place)
    return graph.add(Add(), (first, second), place, first.shape, first.axes)


def _concat(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Concatenation of channels or of features."""
    values = [graph.read(node, at, place) for at in range(len(node.input))]
    if all(len(one.axes) == 1 for one in values):
        values = [graph.flattened(one, place) for one in values]
    first, at = values[0], given["axis"] % (1 + len(values[0].axes)) - 1
    if len(values) == 1:
        return first
    others = {(one.axes[:at], one.axes[at + 1 :], one.shape[1:]) for one in values}
    if at < 0 or len(others) > 1 or any(one.axes[at] != channels_of(one.shape) for one in values):
        shapes = ", ".join(str(one.sizes) for one in values)
        raise place.error(f"of {shapes} along the axis {given['axis']} has hardware along the channels of maps only")
    shape = (sum(one.shape[0] for one in values), *first.shape[1:])
    axes = (*first.axes[:at], channels_of(shape), *first.axes[at + 1 :])
    return graph.add(Concat(), tuple(values), place, shape, axes)


def _multiply(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Product of a tensor and a constant, one factor for each channel: a depthwise convolution of 1 x 1."""
    at = next(at for at, name in enumerate(node.input) if graph.is_value(name))
    value = graph.read(node, at, place)
    if len(value.sizes) == 1:
        value = graph.flattened(value, place)
    constant = graph.weight(node, place, 1 - at)
    assert constant is not None, "the operator's inputs are all there"
    factors = per_channel(value, constant)
    if factors is None:
        raise place.error(
            f"multiplies {value.sizes} by a constant of {constant.shape}: only one value for each channel has hardware"
        )
    shape = (len(factors), 1, 1, 1)
    places = per_channel(value, np.arange(constant.size).reshape(constant.shape))
    if places is not None and np.array_equal(places, range(len(factors))):  # the constant itself, in another shape
        name, order = graph.own_name(node, 1 - at), ElementOrder.reshaped(constant.shape, shape)
        arrays = {"weight": constant}
    else:
        name, order, arrays = None, None, {"weight": factors.reshape(shape)}
    return graph.add(Depthwise(1), (value,), place, value.shape, value.axes, arrays, name, order)


def _cast(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Conversion of a tensor of float32 to float32."""
    if given["to"] != FLOAT:
        raise place.error("converts to another type than float32, which has no hardware")
    return _same(graph, node, given, place)


def _same(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    training = graph.constant(node, 2, place) if node.op_type == "Dropout" else None
    if training is not None and training.any():
        raise place.error("is in training mode")
    return graph.read(node, 0, place, padded=True, left=True)


def _softmax(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    """Softmax of the logits, which the host computes; one before another layer is refused by what reads it."""
    value = graph.read(node, 0, place)
    axis = given.get("axis", 1 if graph.opset < 13 else -1)
    if len(value.sizes) != 1 or axis not in (1, -1):
        raise place.error(
            f"of {value.sizes} over the axis {axis} has no hardware: a network gives logits, and the softmax over the "
            "classes is left to the host"
        )
    return value._replace(host={"Softmax": "softmax", "LogSoftmax": "log_softmax"}[node.op_type])


NODES: dict[str, Handler] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _norm,
    "Relu": _relu,
    "LeakyRelu": _leaky_relu,
    "Clip": _clip,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global,
    "GlobalMaxPool": _global,
    "ReduceMean": _mean,
    "ReduceMax": _mean,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Pad": _pad,
    "Add": _sum,
    "Sum": _sum,
    "Concat": _concat,
    "Dropout": _same,
    "Identity": _same,
    "Cast": _cast,
    "Mul": _multiply,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
