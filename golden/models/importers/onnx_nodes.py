"""Nodes of an ONNX graph, each as a layer of a description or refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..layers import (
    Add,
    AveragePool,
    BatchNorm,
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
from .graph import Place
from .onnx_graph import Array, Attributes, Handler, OnnxGraph, Value

if TYPE_CHECKING:
    import onnx


def _window(given: Attributes, shape: Shape, kernel: Pair, place: Place) -> tuple[Sides, Pair]:
    """Padding and stride of a convolution or a pool."""
    stride = tuple(given.get("strides", (1, 1)))
    if set(given.get("dilations", (1,))) != {1}:
        raise place.error(f"has dilations of {given['dilations']}, not 1")
    top, left, bottom, right = given.get("pads", (0, 0, 0, 0))
    if (kind := given.get("auto_pad", b"NOTSET").decode()) in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-side // step) - 1) * step + size - side, 0)
            for side, size, step in zip(shape[1:], kernel, stride, strict=True)
        ]
        less, more = [total // 2 for total in totals], [-(-total // 2) for total in totals]
        (top, left), (bottom, right) = (less, more) if kind == "SAME_UPPER" else (more, less)
    if min(top, left, bottom, right) < 0:
        raise place.error(f"has a negative padding, {top}, {left}, {bottom}, {right}")
    return (top, bottom, left, right), (stride[0], stride[1])


def _size(side: int, kernel: int, padding: int, stride: int) -> int:
    return (side + padding - kernel) // stride + 1


def _conv(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, shape = graph.map(node, place)
    weight, bias = graph.weights(node, 1, place), graph.weights(node, 2, place)
    if weight is None or weight.ndim != 4:
        raise place.error("has no weight of (out, in, height, width)")
    channels, inner, *sizes = weight.shape
    kernel = sizes[0], sizes[1]
    groups = given.get("group", 1)
    if inner * groups != shape[0] or tuple(given.get("kernel_shape", kernel)) != kernel:
        raise place.error(f"has a weight of {weight.shape} and {groups} groups for {shape[0]} channels")
    padding, stride = _window(given, shape, kernel, place)
    padding = tuple(own + more for own, more in zip(padding, value.padding, strict=True))  # type: ignore[assignment]
    layer: Layer = Convolution(channels, kernel, padding, stride)
    if groups > 1:
        if not groups == channels == shape[0]:
            raise place.error(f"has {groups} groups of {channels} channels, neither 1 nor one a channel")
        layer = Depthwise(kernel, padding, stride)
    down = _size(shape[1], kernel[0], padding[0] + padding[1], stride[0])
    across = _size(shape[2], kernel[1], padding[2] + padding[3], stride[1])
    arrays = {"weight": weight, "bias": bias}
    return graph.add(layer, (value,), place, (channels, down, across), arrays, {"weight": node.input[1]})


def _gemm(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, weight = graph.value(node, 0, place), graph.weights(node, 1, place)
    bias = graph.weights(node, 2, place)
    if weight is None or weight.ndim != 2 or given.get("transA", 0):
        raise place.error("is no product of a vector and a constant matrix")
    names = {"weight": node.input[1]} if given.get("transB", 0) and given.get("alpha", 1.0) == 1 else {}
    weight = (weight if given.get("transB", 0) else weight.T) * np.float32(given.get("alpha", 1.0))
    return _linear(graph, value, weight, bias, np.float32(given.get("beta", 1.0)), names, place)


def _matmul(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, weight = graph.value(node, 0, place), graph.weights(node, 1, place)
    if weight is None or weight.ndim != 2:
        raise place.error("is no product of a vector and a constant matrix")
    return _linear(graph, value, weight.T, None, np.float32(1), {}, place)


def _linear(
    graph: OnnxGraph,
    value: Value,
    weight: Array,
    bias: Array | None,
    beta: np.float32,
    names: Mapping[str, str],
    place: Place,
) -> Value:
    if value.shape != weight.shape[1:]:
        raise place.error(f"has an input of {value.shape} for a matrix of {weight.shape[1]} rows: flatten it first")
    if bias is not None:
        bias = np.broadcast_to(bias.reshape(-1) * beta, len(weight)).copy() if bias.size in (1, len(weight)) else None
        if bias is None:
            raise place.error("has a bias that is not one for each output")
    arrays = {"weight": np.ascontiguousarray(weight), "bias": bias}
    return graph.add(Linear(len(weight)), (value,), place, (len(weight),), arrays, names)


def _norm(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.value(node, 0, place)
    if given.get("training_mode", 0) or given.get("spatial", 1) != 1:
        raise place.error("takes the statistics of a batch, not constant ones")
    names = ("weight", "bias", "running_mean", "running_var")
    arrays = {kind: graph.weights(node, at, place) for at, kind in enumerate(names, start=1)}
    if any(one is None or one.shape != value.shape[:1] for one in arrays.values()):
        raise place.error(f"has no four constants of {value.shape[0]} channels")
    return graph.add(BatchNorm(), (value,), place, value.shape, arrays, eps=given.get("epsilon", 1e-5))


def _relu(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.value(node, 0, place)
    return graph.add(Relu(), (value,), place, value.shape)


def _leaky_relu(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.value(node, 0, place)
    # the decimal number that float32 stands for
    slope = float(str(np.float32(given.get("alpha", 0.01))))
    return graph.add(Relu(slope=slope), (value,), place, value.shape)


def _clip(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.value(node, 0, place)
    ends = [given.get(name, graph.constant(node, at, place)) for at, name in ((1, "min"), (2, "max"))]
    least, most = (None if one is None else float(np.asarray(one).reshape(())) for one in ends)
    if least != 0:
        raise place.error(f"clips from {least} to {most}, not from 0")
    return graph.add(Relu(most), (value,), place, value.shape)


def _pool(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, shape = graph.map(node, place)
    size = tuple(given["kernel_shape"])
    padding, stride = _window(given, shape, size, place)
    if any(padding) and node.op_type != "MaxPool":
        raise place.error(f"has a padding of {padding} (top, bottom, left, right), not 0")
    if given.get("ceil_mode", 0):
        padding = _rounded_up(shape, size, padding, stride)
        if any(padding) and node.op_type != "MaxPool":
            raise place.error("has ceil_mode, which has no hardware")
    beyond = sum(padding[:2]), sum(padding[2:])
    steps = zip(shape[1:], size, beyond, stride, strict=True)
    sides = tuple(_size(side, own, more, step) for side, own, more, step in steps)
    if size == stride == (1, 1):
        return value
    if node.op_type == "MaxPool":
        return graph.add(MaxPool(size, stride, padding), (value,), place, (shape[0], *sides))
    if size not in (stride, shape[1:]):
        raise place.error(f"has a stride of {stride}, not that of its size {size}")
    return graph.add(AveragePool(size), (value,), place, (shape[0], *sides))


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
    value, (channels, height, width) = graph.map(node, place)
    if (height, width) == (1, 1):
        return value
    return graph.add(AveragePool((height, width)), (value,), place, (channels, 1, 1))


def _mean(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    graph.map(node, place)
    axes = graph.constant(node, 1, place)
    dims = sorted(one % 4 for one in given.get("axes", [] if axes is None else axes.tolist()))
    if dims != [2, 3]:
        raise place.error(f"is over {dims}, not over height and width")
    found = _global(graph, node, given, place)
    return found if given.get("keepdims", 1) else graph.flattened(found, place)


def _flatten(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value = graph.value(node, 0, place)
    if given.get("axis", 1) not in (1, -len(value.shape)):
        raise place.error(f"has the axis {given['axis']}, not 1")
    return graph.flattened(value, place)


def _reshape(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    target = graph.constant(node, 1, place)
    if target is None:
        raise place.error("has no shape")
    return graph.reshaped(graph.value(node, 0, place), [int(one) for one in target], place)


def _squeeze(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, axes = graph.value(node, 0, place), graph.constant(node, 1, place)
    dims = sorted(one % (len(value.shape) + 1) for one in given.get("axes", [] if axes is None else axes.tolist()))
    if value.shape[1:] != (1, 1) or dims != [2, 3]:
        raise place.error(f"of {value.shape} does not flatten each sample")
    return graph.flattened(value, place)


def _transpose(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, turn = graph.value(node, 0, place), list(given.get("perm", ()))
    if value.channels_last and turn == [0, 3, 1, 2]:
        height, width, channels = value.shape
        return Value(value.layer, (channels, height, width))
    if turn == [0, 2, 3, 1] and value.shape[1:] == (1, 1):
        return graph.flattened(value, place)
    raise place.error(f"by {turn} has no hardware; that of an input of (height, width, channels) to channels first has")


def _pad(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    value, _ = graph.map(node, place)
    pads, filled = graph.constant(node, 1, place), graph.constant(node, 2, place)
    sides = [int(one) for one in (given.get("pads", []) if pads is None else pads)]
    amount = given.get("value", 0.0) if filled is None else float(filled)
    if given.get("mode", b"constant") != b"constant" or amount:
        raise place.error("pads with something other than zeros")
    if len(sides) != 8 or any(sides[0:2] + sides[4:6]) or min(sides) < 0 or len(node.input) > 3:
        raise place.error(f"has a padding of {sides}: none of it may be negative, or of batch or channels")
    return value._replace(padding=(sides[2], sides[6], sides[3], sides[7]))


def _sum(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    if (found := graph.bias(node, place)) is not None:
        return found
    values = graph.value(node, 0, place), graph.value(node, 1, place)
    if values[0].shape != values[1].shape:
        raise place.error(f"adds {values[0].shape} to {values[1].shape}")
    return graph.add(Add(), values, place, values[0].shape)


def _same(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    training = graph.constant(node, 2, place) if node.op_type == "Dropout" else None
    if training is not None and training.any():
        raise place.error("is in training mode")
    return graph.value(node, 0, place)


def _softmax(graph: OnnxGraph, node: onnx.NodeProto, given: Attributes, place: Place) -> Value:
    raise place.error("has no hardware: a network gives logits, the softmax is part of the loss; export it without")


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
    "ReduceMean": _mean,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Pad": _pad,
    "Add": _sum,
    "Dropout": _same,
    "Identity": _same,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
