"""Layers of an ONNX file, from the attributes and inputs of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...models.activations import ACTIVATIONS, Made
from ...models.layers import AveragePool, MaxPool, Pair, Shape
from ...models.module import NetworkModule
from ...models.network import Network
from ..graph import Arguments, Place, constant_of, needed
from ..onnx_constants import BATCH
from ..onnx_graph import OnnxGraph, OtherSampleError
from . import matching
from .axes import Value, in_order, inverse, joined, placed, with_height
from .graph import SUPPORTED, LayerGraph, Weight

if TYPE_CHECKING:
    import onnx

_FLOAT = 1
"""float32 among ONNX's types."""


class OnnxLayers(OnnxGraph):
    """Traversal of a file's nodes."""

    most_axes = 3
    _seen: Value | None = None
    """The sample as the first layer reads it, if shape or order differ from the file's."""

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all nodes; errors as of `network.onnx_network`."""
        try:
            place, value = self.walk()
        except OtherSampleError:
            place, value = self.walk()
        self.graph.output(matching.read(place, value, matching.FILLS, host=True))
        return self.graph.finish()

    def sample(self, name: str, batch: int, shape: Shape) -> Value:
        self._batch, axes = batch or BATCH, in_order(shape)
        value = Value(-1, with_height(shape), axes)
        if self._seen is not None:
            # the description has the axes of the first layer; the file's axes are views of them
            value = Value(-1, with_height(self._seen.sizes), inverse(self._seen.runs, shape))
        self.graph = LayerGraph(self.name, value.shape, late=True)

        def read_otherwise(read: Value) -> None:
            # channels may be the last axis of the file's samples, or axes may be split differently
            runs = joined(run for axis in (axes[-1], *axes[:-1]) for run in axis)
            turned = read.axes[0] == axes[-1] and joined(read.runs) == runs
            if read.layer < 0 and self._seen is None and (read.in_order or turned):
                self._seen = read
                raise OtherSampleError

        self.graph.read_otherwise = read_otherwise
        return value

    def sizes(self, value: Any) -> tuple[int, ...]:
        return self._batch, *value.sizes

    def constant(self, name: str) -> Weight:
        tensor, constants = self.constants.tensor(name), self.constants
        name_of_tensor, memory = constants.own_name(name), constants.memory(name)
        return Weight(tensor, name_of_tensor, in_order(tuple(tensor.shape)), constants.origin(name), memory)

    def operator(self, node: onnx.NodeProto, arguments: Arguments, place: Place) -> list[Value]:
        handler = _HANDLERS.get(node.op_type)
        if handler is None:
            raise place.error(f"has no hardware; supported: {SUPPORTED}")
        self.outputs, self.kind = len(node.output), node.op_type
        # mask of a dropout, statistics of a batch norm in training
        for other in node.output[1:]:
            if other in self.read_names:
                raise place.error(f"gives {other!r} as well, which has no hardware")
        return [handler(self, place, arguments)]

    def weight(self, place: Place, value: Any, kind: str = "weight") -> Weight:
        """Constant argument of floats."""
        constant = needed(place, kind, value)
        assert isinstance(constant, Weight), "what `constant` makes"
        if constant.tensor.dtype not in (torch.float32, torch.float64):
            raise place.error(f"has weights {constant.shown!r} of {str(constant.tensor.dtype)[6:]}, not float32")
        return constant

    def bias(self, place: Place, value: Any) -> Weight | None:
        """Optional constant argument of floats, without name and memory."""
        return None if value is None else replace(self.weight(place, value, "bias"), name="", memory=())


Handler = Callable[[OnnxLayers, Place, Arguments], Value]


def _for_each(place: Place, name: str, values: Sequence[int], axes: int) -> list[int]:
    """Attribute with a number per axis; 1 if omitted."""
    numbers = list(values) or [1] * axes
    if len(numbers) != axes:
        raise place.error(f"has {name} of {numbers} for {axes} axes")
    return numbers


def _window(
    place: Place, arguments: Arguments, sides: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[Pair]]:
    """Stride of a convolution or a pool, and zeros before and after each axis.

    `sides` are the sizes of the map with earlier padding.
    """
    axes = len(kernel)
    stride = _for_each(place, "strides", arguments.integers(place, "strides"), axes)
    if {*_for_each(place, "dilations", arguments.integers(place, "dilations"), axes)} != {1}:
        raise place.error(f"has dilations of {arguments['dilations']}, not 1")
    pads = arguments.integers(place, "pads") or [0] * 2 * axes
    if len(pads) != 2 * axes:
        raise place.error(f"has pads of {pads} for {axes} axes")
    kind = arguments.get("auto_pad", b"NOTSET").decode()
    if kind not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or (kind != "NOTSET" and any(pads)):
        raise place.error(f"has the auto_pad {kind}" + (" and pads as well" if any(pads) else ""))
    pairs = list(zip(pads[:axes], pads[axes:], strict=True))
    if min(pads) < 0:
        raise place.error(f"has a negative padding, {', '.join(map(str, pads))}")
    if kind.startswith("SAME") and min(stride) > 0:
        totals = [
            max((-(-side // step) - 1) * step + size - side, 0)
            for side, size, step in zip(sides, kernel, stride, strict=True)
        ]
        pairs = [(total // 2, -(-total // 2)) for total in totals]
        pairs = pairs if kind == "SAME_UPPER" else [(more, less) for less, more in pairs]
    return stride, pairs


# -- layers with weights -----------------------------------------------------------------------------------------------


def _convolution(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    weights = walk.weight(place, arguments["W"]), walk.bias(place, arguments["B"])
    kernel = list(weights[0].sizes[2:])
    if (arguments.integers(place, "kernel_shape") or kernel) != kernel:
        raise place.error(f"has a kernel_shape of {arguments['kernel_shape']} and a weight of {weights[0].sizes}")
    value = matching.read(place, arguments["X"], fills=(0.0,))
    if len(value.sizes) != 1 + len(kernel):
        _, within = matching.map_of(walk.graph, place, value, fills=(0.0,))
        raise place.error(f"has no weight of ({'out, in, height, width' if len(within) == 2 else 'out, in, size'})")
    top, bottom, left, right = value.padding or (0, 0, 0, 0)
    more = (top + bottom, left + right)[-len(kernel) :] if kernel else ()
    sides = [side + zeros for side, zeros in zip(value.sizes[1:], more, strict=True)]
    stride, padding = _window(place, arguments, sides, kernel)
    return matching.convolution(walk.graph, place, value, weights, arguments["group"], stride, padding)


def _gemm(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    if arguments["transA"]:
        raise place.error("has transA: its first input is turned, and no vector for each sample")
    weight, bias = walk.weight(place, arguments["B"]), walk.bias(place, arguments.get("C"))
    alpha, beta = (np.float32(arguments[name]) for name in ("alpha", "beta"))
    if alpha != 1:
        weight = replace(weight, tensor=weight.tensor * float(alpha), name="")
    if bias is not None:
        bias = replace(bias, tensor=bias.tensor * float(beta))
    return matching.product(walk.graph, place, arguments["A"], weight, bias, turned=not arguments["transB"])


def _matmul(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    return matching.product(walk.graph, place, arguments["A"], walk.weight(place, arguments["B"]), None)


def _batch_norm(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    # before opset 14 the number of outputs shows a training node
    trains = walk.outputs > 1 if walk.opset < 14 else arguments["training_mode"]
    if trains or arguments.get("spatial", 1) != 1:
        raise place.error("takes the statistics of a batch, not constant ones")
    value, *constants = arguments.first(5)
    kinds = ("weight", "bias", "running_mean", "running_var")
    weights = {kind: walk.bias(place, constant) for kind, constant in zip(kinds, constants, strict=True)}
    return matching.batch_norm(walk.graph, place, value, weights, arguments["epsilon"])


# -- activations and pools ---------------------------------------------------------------------------------------------


def _activation(made: Made) -> Handler:
    return lambda walk, place, arguments: matching.activation(walk.graph, place, arguments, made)


def _pool(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    kind = MaxPool if walk.kind == "MaxPool" else AveragePool
    fills = (-inf,) if kind is MaxPool else ()
    value, within = matching.map_of(walk.graph, place, arguments["X"], fills, column=True)
    axes = len(within)
    kernel = _for_each(place, "kernel_shape", arguments["kernel_shape"], axes)
    stride, pads = _window(place, arguments, [value.padded[axis] for axis in within], kernel)
    (top, left), (bottom, right) = (placed(within, [pair[end] for pair in pads], 0) for end in (0, 1))
    size, steps, padding = placed(within, kernel, 1), placed(within, stride, 1), (top, bottom, left, right)
    ceil_mode = bool(arguments.get("ceil_mode", 0))
    return matching.pool(walk.graph, place, (value, within), kind, size, steps, padding, ceil_mode)


def _global(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
        value, within = matching.map_of(walk.graph, place, arguments["X"])
        size = value.shape[1], value.shape[2]
        return matching.pool(walk.graph, place, (value, within), kind, size, size)

    return handler


def _reduced(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
        axes = arguments.integers(place, "axes")
        return matching.reduced(walk.graph, place, arguments["data"], axes, bool(arguments["keepdims"]), kind)

    return handler


# -- views -------------------------------------------------------------------------------------------------------------


def _flatten(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value, axis = matching.read(place, arguments["input"], host=True), arguments["axis"]
    position = axis + len(value.sizes) + 1 if axis < 0 else axis
    if position < 1 or prod(value.sizes[: position - 1]) != 1:
        raise place.error(f"has the axis {axis}, not 1: it does not keep each sample for itself")
    return matching.viewed(walk.graph, place, value, (prod(value.sizes),), "one axis")


def _reshape(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value, target = matching.read(place, arguments["data"], host=True), arguments.integers(place, "shape")
    shown = " x ".join("batch" if size == BATCH else str(size) for size in target)
    shape = _target(value.sizes, target, walk.sizes(value)[0], bool(arguments.get("allowzero", 0)))
    return matching.viewed(walk.graph, place, value, shape, shown)


def _target(sizes: Shape, target: list[int], own_batch: int, zero_is_size: bool) -> Shape | None:
    """Output shape of a Reshape without the batch; None if samples would mix."""
    batch, *wanted = target or [1]
    if not zero_is_size:
        batch = BATCH if batch == 0 else batch
        if any(size == 0 and index >= len(sizes) for index, size in enumerate(wanted)):
            return None
        wanted = [sizes[index] if size == 0 else size for index, size in enumerate(wanted)]
    if wanted.count(-1) > 1 or (-1 in wanted and batch == -1) or any(size < 1 and size != -1 for size in wanted):
        return None
    known = prod(size for size in wanted if size != -1)
    if batch not in (-1, BATCH, own_batch) or prod(sizes) % known:
        return None
    return tuple(prod(sizes) // known if size == -1 else size for size in wanted)


def _squeeze(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value = matching.read(place, arguments["data"], host=True)
    dims = {axis % (len(value.sizes) + 1) for axis in arguments.integers(place, "axes")}
    if not dims or 0 in dims or any(value.axes[axis_number - 1] for axis_number in dims):
        raise place.error(f"of {value.sizes} drops the axes {sorted(dims)}: give those of one value, without the batch")
    shape = tuple(size for axis_number, size in enumerate(value.sizes, start=1) if axis_number not in dims)
    return matching.viewed(walk.graph, place, value, shape, str(shape))


def _unsqueeze(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value, axes = matching.read(place, arguments["data"], host=True), arguments.integers(place, "axes")
    rank = len(value.axes) + 1 + len(axes)
    dims = {axis % rank for axis in axes}
    if 0 in dims or len(dims) != len(axes):
        raise place.error(f"adds the axes {axes}: the batch is the first axis, and stays it")
    sizes = iter(value.sizes)
    shape = tuple(1 if axis_number in dims else next(sizes) for axis_number in range(1, rank))
    return matching.viewed(walk.graph, place, value, shape, str(shape))


def _transpose(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value = matching.read(place, arguments["data"], host=True)
    turn = arguments.integers(place, "perm") or [*range(len(value.axes), -1, -1)]
    return matching.permuted(walk.graph, place, value, turn)


def _pad(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value, ends = matching.read(place, arguments["data"], matching.FILLS), arguments.integers(place, "pads")
    filled = constant_of(place, "value", arguments.get("constant_value"))
    amount = arguments.get("value", 0.0) if filled is None else float(filled.tensor.reshape(()))
    mode = arguments["mode"].decode()
    rank = len(value.axes) + 1
    dims = [axis % rank for axis in arguments.integers(place, "axes")] or [*range(rank)]
    if len(ends) != 2 * len(dims) or len(set(dims)) != len(dims):
        raise place.error(f"has pads of {ends} for the axes {dims}")
    sides = {axis: (ends[index], ends[index + len(dims)]) for index, axis in enumerate(dims)}
    return matching.padded(walk.graph, place, value, ends, sides, amount if mode == "constant" else mode)


def _same(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    training = constant_of(place, "training_mode", arguments.get("training_mode"))
    if training is not None and training.tensor.any():
        raise place.error("is in training mode")
    if arguments.get("to", _FLOAT) != _FLOAT:
        raise place.error("converts to another type than float32, which has no hardware")
    return matching.read(place, arguments.first(1)[0], matching.FILLS, host=True)


# -- sums, products, concatenations ------------------------------------------------------------------------------------


def _sum(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    """Sum of tensors, with constants added last."""
    terms = arguments.first(2) if walk.kind == "Add" else arguments["data_0"]
    value, *others = sorted(terms, key=lambda term: isinstance(term, Weight))
    for other in others:
        term = walk.bias(place, other) if isinstance(other, Weight) else other
        value = matching.added(walk.graph, place, value, term)
    return matching.read(place, value, host=True)


def _multiply(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    value, other = sorted(arguments.first(2), key=lambda factor: isinstance(factor, Weight))
    return matching.multiplied(walk.graph, place, value, walk.weight(place, other, "factor"))


def _concatenation(walk: OnnxLayers, place: Place, arguments: Arguments) -> Value:
    return matching.concatenation(walk.graph, place, arguments["inputs"], arguments["axis"])


def _softmax(kind: str) -> Handler:
    return lambda walk, place, arguments: matching.softmax(place, arguments["input"], arguments["axis"], kind)


_HANDLERS: dict[str, Handler] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_norm,
    **{title: _activation(made) for kind in ACTIVATIONS for title, made in kind.onnx.items()},
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global(AveragePool),
    "GlobalMaxPool": _global(MaxPool),
    "ReduceMean": _reduced(AveragePool),
    "ReduceMax": _reduced(MaxPool),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Pad": _pad,
    "Add": _sum,
    "Sum": _sum,
    "Concat": _concatenation,
    "Dropout": _same,
    "Identity": _same,
    "Cast": _same,
    "Mul": _multiply,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
}
