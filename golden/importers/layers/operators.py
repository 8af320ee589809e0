"""Operators of an exported program, each as a layer of a description or refused at the user's own line.

A rewrite of two operators into one layer, such as of a product and the sum of a parameter, adds that layer *instead of*
the earlier one (`LayerGraph.add`), which stays for those that read it. Nothing that is there is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch.fx import Node

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
    Relu,
    Shape,
    Sides,
    Weighted,
)
from ...models.module import NetworkModule
from ...models.network import Network
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
from .exported_graph import (
    PERMUTATIONS,
    Constant,
    ExportedGraph,
    Handler,
    arguments,
    permutation_of,
    plain,
    shape_of,
)


def import_program(
    program: torch.export.ExportedProgram, input_shape: Shape, name: str
) -> tuple[Network, NetworkModule]:
    """Import a program whose operators all give a new tensor; parameters and errors as of `exported.imported`."""
    return ExportedGraph(program, input_shape, name, _OPERATORS, _VIEWS).run()


def _map(graph: ExportedGraph, node: Node, padded: bool = False) -> tuple[Value, tuple[int, ...]]:
    """Map that an operator reads, and which of height and width it has, see `axes.spatial`."""
    value = graph.value(node, node.args[0], padded=padded)
    found = spatial(value.axes, value.shape)
    shape = shape_of(node.args[0])[1:]
    graph.refuse_unless(node, len(shape) in (2, 3), "of no map of channels has no hardware")
    graph.refuse_unless(node, bool(found), f"reads {shape}, which is another view of {value.shape}")
    return value, found


def _maps(graph: ExportedGraph, node: Node, number: int, axes: tuple[int, ...]) -> Value:
    """Outputs of a layer that gives maps."""
    shape = shape_of(node)[1:]
    described = (shape[0], *placed(axes, shape[1:], 1))
    return graph.gives(node, number, described, in_order(shape))


# -- layers with weights -----------------------------------------------------------------------------------------------


def _convolution(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    weight = graph.constant(node, "weight", given["weight"])
    bias = None if given["bias"] is None else graph.constant(node, "bias", given["bias"])
    shape = tuple(weight.tensor.shape)
    graph.refuse_unless(node, weight.axes == in_order(shape), "has a weight whose axes are permuted")
    constants = {"weight": weight, "bias": bias}
    if shape == (given["groups"], 1, 1, 1) and shape_of(node.args[0])[1:] == shape_of(node)[1:] == (shape[0], 1, 1):
        return _scaled(graph, node, constants)
    value, axes = _map(graph, node, padded=True)
    kernel, stride = placed(axes, shape[2:], 1), placed(axes, given["stride"], 1)
    dilation = given["dilation"]
    graph.refuse_unless(node, set(placed(axes, dilation, 1)) == {1}, f"has a dilation of {dilation}, not 1")
    graph.refuse_unless(node, not given.get("transposed"), "is transposed, which has no hardware")
    padding, more = _padding(given["padding"], axes, kernel), value.padding or (0, 0, 0, 0)
    padding = (padding[0] + more[0], padding[1] + more[1], padding[2] + more[2], padding[3] + more[3])
    channels, groups = shape[0], given["groups"]
    layer: Convolution | Depthwise = Convolution(channels, kernel, padding, stride, groups)
    if groups > 1 and groups == channels == value.shape[0]:
        layer = Depthwise(kernel, padding, stride)
    order = None if len(axes) == 2 else ElementOrder.reshaped(shape, (*shape[:2], *kernel))
    return _maps(graph, node, graph.add(node, layer, value, order=order, constants=constants), axes)


def _scaled(graph: ExportedGraph, node: Node, constants: dict[str, Constant | None]) -> Value:
    """Depthwise convolution of a vector that is seen as maps of one value."""
    value = graph.value(node, node.args[0])
    if not spatial(value.axes, value.shape):
        graph.refuse_unless(node, value.in_order, "reads the elements of a vector in another order")
        value = graph.viewed(node, value._replace(axes=(joined(value.runs),)))
    number = graph.add(node, Depthwise(1), value, constants=constants)
    return graph.gives(node, number, value.shape, in_order(shape_of(node)[1:]))


def _padding(value: Any, axes: tuple[int, ...], kernel: Pair) -> Sides:
    if value == "same":
        (top, bottom), (left, right) = (((size - 1) // 2, size // 2) for size in kernel)
        return top, bottom, left, right
    down, across = (0, 0) if value == "valid" else placed(axes, value, 0)
    return down, down, across, across


def _pad(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    mode, value, sides = given.get("mode", "constant"), given["value"], list(given["pad"])
    graph.refuse_unless(node, mode == "constant" and not value, f"pads with {value or mode}, not with zeros")
    graph.refuse_unless(node, min(sides, default=0) >= 0, f"has a negative padding, {sides}")
    read, axes = _map(graph, node)
    graph.refuse_unless(node, not any(sides[2 * len(axes) :]), f"pads more than height and width, {sides}")
    # the last axis comes first
    pairs = dict(zip(reversed(axes), zip(sides[::2], sides[1::2], strict=True), strict=False))
    return read._replace(padding=(*pairs.get(1, (0, 0)), *pairs.get(2, (0, 0))))


def _linear(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    return _product(graph, node, given["input"], given["weight"], given["bias"], turned=False)


def _matmul(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    return _product(graph, node, given["self"], given.get("other", given.get("mat2")), None, turned=True)


def _addmm(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    for factor in ("beta", "alpha"):
        graph.refuse_unless(node, given[factor] == 1, f"has a factor of {given[factor]}")
    return _product(graph, node, given["mat1"], given["mat2"], given["self"], turned=True)


def _product(graph: ExportedGraph, node: Node, source: Any, matrix: Any, added: Any, turned: bool) -> Value:
    """Product of a vector and a matrix of (outputs, inputs), or if it is turned of (inputs, outputs)."""
    value, weight = graph.value(node, source), graph.constant(node, "weight", matrix)
    bias = None if added is None else graph.constant(node, "bias", added)
    graph.refuse_unless(node, len(value.axes) == 1, f"has an input of {shape_of(source)[1:]}: flatten it first")
    shape = tuple(weight.tensor.shape)
    plainly = in_order(shape)
    graph.refuse_unless(node, len(shape) == 2, f"has a weight of {shape}, which is no matrix")
    if weight.axes != plainly:
        turned = not turned
        graph.refuse_unless(node, weight.axes == plainly[::-1], "has a weight that is another view of a matrix")
    along = bias is None or not any(bias.axes[:-1])
    graph.refuse_unless(node, along, "adds one value for each sample, not for each output")
    inputs, outputs = shape if turned else shape[::-1]
    # the weight's columns stand in the order of the tensor's elements, which may be another than the layer's
    runs = value.axes[0]
    sizes, elements = tuple(size for size, _ in runs), outer_first(runs)
    order = None
    if turned:
        order = ElementOrder(shape, (*sizes, outputs), (len(sizes), *elements), (outputs, inputs))
    elif elements != tuple(range(len(runs))):
        order = ElementOrder(shape, (outputs, *sizes), (0, *(1 + at for at in elements)), (outputs, inputs))
    number = graph.add(node, Linear(outputs), value, order=order, constants={"weight": weight, "bias": bias})
    return graph.gives(node, number, (outputs,), in_order((outputs,)))


def _batch_norm(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    graph.refuse_unless(node, not given.get("training"), "takes the statistics of a batch, not running ones")
    if given["running_mean"] is None or given["running_var"] is None:
        graph.refuse(node, "has no running statistics: track_running_stats=True is needed")
    value = graph.value(node, given["input"])
    order = None
    if len(value.axes) == len(value.shape) == 1:
        order = feature_order(value.axes[0])
    else:
        whole = value.axes[:1] == (channels_of(value.shape),)
        reason = f"reads {shape_of(given['input'])[1:]}, whose channels are not those of a layer"
        graph.refuse_unless(node, whole, reason)
    kinds = ("weight", "bias", "running_mean", "running_var")
    tensors = {kind: graph.constant(node, kind, given[kind]) for kind in kinds if given[kind] is not None}
    number = graph.add(node, BatchNorm(), value, order=order, eps=given["eps"], constants=tensors)
    return graph.gives(node, number, value.shape, value.axes)


def _statistics_of_a_batch(graph: ExportedGraph, node: Node) -> Value:
    raise graph.place(node).error("batch norm has no running statistics: track_running_stats=True is needed")


# -- activations -------------------------------------------------------------------------------------------------------


def _activation(graph: ExportedGraph, node: Node, layer: Relu) -> Value:
    return graph.each(node, layer, graph.value(node, node.args[0]))


def _relu(graph: ExportedGraph, node: Node) -> Value:
    return _activation(graph, node, Relu())


def _relu6(graph: ExportedGraph, node: Node) -> Value:
    return _activation(graph, node, Relu(6.0))


def _hardtanh(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    least, most = (given.get(name[0], given.get(name[1])) for name in (("min_val", "min"), ("max_val", "max")))
    exact = bool(least == 0) and isinstance(most, int | float | None)
    graph.refuse_unless(node, exact, f"clips from {least} to {most}, not from 0")
    return _activation(graph, node, Relu(None if most is None else float(most)))


def _threshold(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    threshold, value = given["threshold"], given["value"]
    graph.refuse_unless(node, threshold == value == 0, f"replaces what is below {threshold} by {value}, not 0 by 0")
    return _relu(graph, node)


def _leaky_relu(graph: ExportedGraph, node: Node) -> Value:
    return _activation(graph, node, Relu(slope=float(arguments(node)["negative_slope"])))


def _softmax(graph: ExportedGraph, node: Node) -> Value:
    """Softmax of the logits, which is left to the host: it changes no decision."""
    value, title = graph.value(node, node.args[0]), plain(node).removeprefix("aten.").strip("_")
    logits = len(value.axes) == 1 and arguments(node)["dim"] in (1, -1)
    graph.refuse_unless(node, logits, "has no hardware but over the logits, where it is left to the host")
    return value._replace(host=title)


# -- pools -------------------------------------------------------------------------------------------------------------


def _max_pool(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    value, axes = _map(graph, node)
    size, dilation = placed(axes, given["kernel_size"], 1), given["dilation"]
    graph.refuse_unless(node, set(placed(axes, dilation, 1)) == {1}, f"has a dilation of {dilation}, not 1")
    stride = placed(axes, given["stride"], 1) if given["stride"] else size
    before, padding = value.shape[1:], placed(axes, given["padding"], 0)
    after = placed(axes, shape_of(node)[2:], 1)
    # with ceil_mode the last windows go further beyond the map
    (top, bottom), (left, right) = (
        (padding[at], max(padding[at], (after[at] - 1) * stride[at] + size[at] - before[at] - padding[at]))
        for at in (0, 1)
    )
    return _pooled(graph, node, value, axes, MaxPool(size, stride, (top, bottom, left, right)))


def _average_pool(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    value, axes = _map(graph, node)
    size = placed(axes, given["kernel_size"], 1)
    graph.refuse_unless(node, not any(placed(axes, given["padding"], 0)), f"has a padding of {given['padding']}, not 0")
    stride, before = placed(axes, given["stride"], 1) if given["stride"] else size, value.shape[1:]
    exact = tuple((before[at] - size[at]) // stride[at] + 1 for at in (0, 1))
    graph.refuse_unless(node, placed(axes, shape_of(node)[2:], 1) == exact, "has ceil_mode, which has no hardware")
    graph.refuse_unless(
        node, size == before or stride == size, f"has a stride of {stride}, not that of its size {size}"
    )
    divisor = given.get("divisor_override")
    graph.refuse_unless(node, divisor in (None, prod(size)), f"divides by {divisor}, not by {prod(size)}")
    return _pooled(graph, node, value, axes, AveragePool(size))


def _adaptive(graph: ExportedGraph, node: Node, kind: type[AveragePool | MaxPool]) -> Value:
    value, axes = _map(graph, node)
    (height, width), (down, across) = value.shape[1:], placed(axes, shape_of(node)[2:], 1)
    exact = not height % down and not width % across
    graph.refuse_unless(node, exact, f"to {down} x {across} has windows of several sizes of {height} x {width}")
    return _pooled(graph, node, value, axes, kind((height // down, width // across)))


def _adaptive_average(graph: ExportedGraph, node: Node) -> Value:
    return _adaptive(graph, node, AveragePool)


def _adaptive_max(graph: ExportedGraph, node: Node) -> Value:
    return _adaptive(graph, node, MaxPool)


def _pooled(
    graph: ExportedGraph, node: Node, value: Value, axes: tuple[int, ...], layer: MaxPool | AveragePool
) -> Value:
    if layer.size == layer.stride == (1, 1) and not any(layer.padding):
        return value
    return _maps(graph, node, graph.add(node, layer, value), axes)


def _mean(graph: ExportedGraph, node: Node) -> Value:
    return _reduced(graph, node, AveragePool)


def _largest(graph: ExportedGraph, node: Node) -> Value:
    return _reduced(graph, node, MaxPool)


def _reduced(graph: ExportedGraph, node: Node, kind: type[AveragePool | MaxPool]) -> Value:
    """Mean or largest of whole axes of a map, in any view of it."""
    given, shape = arguments(node), shape_of(node.args[0])
    value = graph.value(node, node.args[0])
    over = sorted({one % len(shape) for one in given["dim"] or range(len(shape))})
    window = window_over([value.axes[at - 1] for at in over if at], value.shape) if over[:1] != [0] else None
    if window is None:
        graph.refuse(node, f"over {over} is not over a map's height and width")
    pooled = value.shape[0], value.shape[1] // window[0], value.shape[2] // window[1]
    kept = [
        () if at in over else after_window(axis, value.shape, pooled)
        for at, axis in enumerate(value.axes, start=1)
        if at not in over or given["keepdim"]
    ]
    number = value.layer if window == (1, 1) else graph.add(node, kind(window), value)
    return graph.gives(node, number, pooled, tuple(kept))


# -- sums and views ----------------------------------------------------------------------------------------------------


def _add_tensors(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    graph.refuse_unless(node, given["alpha"] == 1, f"has a factor of {given['alpha']}")
    both = []
    for one in (given["self"], given["other"]):
        graph.refuse_unless(node, isinstance(one, Node), f"of a constant, {one}, has no hardware")
        both.append(one)
    constants = [one for one in both if isinstance(graph.read(node, one), Constant)]
    if len(constants) == 1:
        (other,) = (one for one in both if one is not constants[0])
        return _biased(graph, node, graph.value(node, other), graph.constant(node, "bias", constants[0]))
    first, second = (graph.value(node, one) for one in both)
    shapes = [shape_of(one)[1:] for one in both]
    graph.refuse_unless(node, shapes[0] == shapes[1], f"adds {shapes[0]} to {shapes[1]}")
    same = first[1:3] == second[1:3]
    graph.refuse_unless(node, same, f"adds {shapes[0]} of two layers whose elements are in another order")
    number = graph.add(node, Add(), first, second)
    return graph.gives(node, number, first.shape, first.axes)


def _biased(graph: ExportedGraph, node: Node, value: Value, bias: Constant) -> Value:
    """Sum of a layer without a bias and a parameter: that layer with it as its bias."""
    layer = graph.layers.layers[value.layer] if value.layer >= 0 else None
    if layer is None or not isinstance(layer.layer, Weighted) or "bias" in layer.tensors:
        graph.refuse(node, f"adds {bias.name} to what has a bias already, or is no layer with weights")
    # axes of both are counted from the last one; that behind the batch's has the channels
    channel = len(bias.axes) - len(value.axes)
    others = [axis for at, axis in enumerate(bias.axes) if at != channel]
    each = channel >= 0 and value.axes[0] == channels_of(value.shape) and not any(others)
    shape = tuple(bias.tensor.shape)
    graph.refuse_unless(
        node, each and bias.tensor.numel() == value.shape[0], f"adds {bias.name} of {shape}, not one value a channel"
    )
    tensors, names = {**layer.tensors, "bias": bias.tensor.reshape(-1)}, {**layer.names, "bias": bias.name}
    number = graph.layers.add(replace(layer, tensors=tensors, names=names), instead_of=value.layer)
    return graph.gives(node, number, value.shape, value.axes)


def _concatenation(graph: ExportedGraph, node: Node) -> Value:
    given = arguments(node)
    tensors, dim = given["tensors"], given["dim"] % len(shape_of(node))
    graph.refuse_unless(node, dim == 1, f"along axis {dim} has no hardware; along the channels, 1, it has")
    values = [graph.value(node, one) for one in tensors]
    found = {(value.shape[1:], spatial(value.axes, value.shape)) for value in values}
    (behind, axes), *others = found
    vectors = all(value.axes == in_order(value.shape) for value in values) and not behind
    graph.refuse_unless(node, not others and bool(vectors or axes), "of tensors whose channels are not those of layers")
    if len(values) == 1:
        return values[0]
    number = graph.add(node, Concat(), *values)
    shape = shape_of(node)[1:]
    return graph.gives(node, number, (shape[0], *behind), in_order(shape))


def _view(graph: ExportedGraph, node: Node) -> Value | Constant:
    """Same elements in axes of other sizes."""
    read, after = graph.read(node, node.args[0]), shape_of(node)
    if isinstance(read, Constant):
        axes = reshaped(read.axes, after)
        graph.refuse_unless(node, axes is not None, f"of {read.name} is no view of it")
        return read._replace(axes=axes or ())
    before, value = shape_of(node.args[0]), graph.value(node, node.args[0], host=True)
    kept = before[:1] == after[:1] and len(after) > 1
    axes = reshaped(value.axes, after[1:]) if kept else None
    if axes is None:
        graph.refuse(node, f"from {before[1:]} to {after[1:]} does not flatten each sample")
    return graph.viewed(node, value._replace(axes=axes))


def _permuted(graph: ExportedGraph, node: Node) -> Value | Constant:
    read, turn = graph.read(node, node.args[0]), permutation_of(node)
    if isinstance(read, Constant):
        return read._replace(axes=tuple(read.axes[at] for at in turn))
    value = graph.value(node, node.args[0], host=True)
    graph.refuse_unless(node, turn[0] == 0, f"moves the samples of a batch to axis {turn.index(0)}")
    return graph.viewed(node, value._replace(axes=tuple(value.axes[at - 1] for at in turn[1:])))


def _same(graph: ExportedGraph, node: Node) -> Value | Constant:
    first = node.args[0]
    assert isinstance(first, Node), "an operator of a tensor"
    kept = first.meta["val"].dtype == node.meta["val"].dtype
    graph.refuse_unless(node, kept, f"to {node.meta['val'].dtype} has no hardware")
    read = graph.read(node, first)
    return read if isinstance(read, Constant) else graph.value(node, first, host=True)


def _slice(graph: ExportedGraph, node: Node) -> Value | Constant:
    """Slice of a whole axis, as ``x[:]`` writes it."""
    whole = shape_of(node) == shape_of(node.args[0]) and arguments(node)["step"] == 1
    graph.refuse_unless(node, whole, "has no hardware but of a whole axis")
    return _same(graph, node)


def _dropout(graph: ExportedGraph, node: Node) -> Value:
    trained = arguments(node)["train"]
    graph.refuse_unless(node, not trained, "is active in evaluation mode: give it training=self.training")
    return graph.value(node, node.args[0], host=True)


def _item(graph: ExportedGraph, node: Node) -> Value:
    graph.refuse_unless(node, bool(node.args[1] == 0), "of a second output of an operator has no hardware")
    return graph.value(node, node.args[0], host=True)


_HANDLERS: dict[Callable[[ExportedGraph, Node], Value | Constant], str] = {
    _convolution: "conv2d.default conv2d.padding convolution.default conv1d.default conv1d.padding",
    _pad: "pad.default constant_pad_nd.default",
    _linear: "linear.default",
    _matmul: "matmul.default mm.default",
    _addmm: "addmm.default",
    _batch_norm: "batch_norm.default _native_batch_norm_legit_no_training.default",
    _statistics_of_a_batch: "_native_batch_norm_legit.no_stats _native_batch_norm_legit.default",
    _relu: "relu.default",
    _relu6: "relu6.default",
    _hardtanh: "hardtanh.default clamp.default clamp_min.default clip.default",
    _threshold: "threshold.default",
    _leaky_relu: "leaky_relu.default",
    _softmax: "softmax.int log_softmax.int _softmax.default _log_softmax.default",
    _max_pool: "max_pool2d.default max_pool2d_with_indices.default max_pool1d.default max_pool1d_with_indices.default",
    _average_pool: "avg_pool2d.default avg_pool1d.default",
    _adaptive_average: "adaptive_avg_pool2d.default _adaptive_avg_pool2d.default adaptive_avg_pool1d.default",
    _adaptive_max: "adaptive_max_pool2d.default adaptive_max_pool1d.default",
    _mean: "mean.dim",
    _largest: "amax.default",
    _add_tensors: "add.Tensor",
    _concatenation: "cat.default concat.default concatenate.default",
    _view: (
        "view.default reshape.default _unsafe_view.default flatten.using_ints squeeze.default squeeze.dim squeeze.dims "
        "unsqueeze.default unflatten.int"
    ),
    _same: (
        "clone.default detach.default alias.default contiguous.default to.dtype _to_copy.default "
        "lift_fresh_copy.default"
    ),
    _slice: "slice.Tensor",
    _dropout: "dropout.default native_dropout.default",
}
_OPERATORS: dict[str, Handler] = {
    f"aten.{title}": handler for handler, titles in _HANDLERS.items() for title in titles.split()
}
_OPERATORS |= {f"aten.{title}.{kind}": _permuted for title in PERMUTATIONS for kind in ("default", "int", "intlist")}
_OPERATORS["getitem"] = _item
_VIEWS = frozenset(title for title, handler in _OPERATORS.items() if handler in (_view, _permuted, _same, _slice))
