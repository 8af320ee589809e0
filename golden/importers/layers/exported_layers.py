"""Layers of an exported program, from the arguments of ATen operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, prod
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from ...errors import UserError
from ...models.activations import ACTIVATIONS, Made
from ...models.element_order import ElementOrder
from ...models.layers import AveragePool, MaxPool, Shape
from ...models.module import NetworkModule
from ...models.network import Network
from ..exported_graph import ExportedGraph, shape_of, title_of
from ..graph import Arguments, Place, needed
from . import matching
from .axes import Axes, Value, in_order, outer_first, placed, reshaped, with_height
from .graph import SUPPORTED, LayerGraph, Weight

_IN_FORWARD = "a tensor that forward makes or that is an attribute: register it as a parameter or as a buffer"
_NOT_SAVED = "a buffer that no state dict has: register it without persistent=False"
_PERMUTATIONS = frozenset(
    ("permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint")
)
"""ATen operators that permute the axes of a tensor."""


class ExportedLayers(ExportedGraph):
    """Traversal of a program's operators.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Without in-place operators.
    input_shape : tuple of int
        Shape of a sample for the module.
    name : str
        Origin of the module for messages.

    Attributes
    ----------
    node : Node
        Operator that is being imported.
    """

    def __init__(self, program: ExportedProgram, input_shape: Shape, name: str) -> None:
        super().__init__(program, name)
        self._input_shape = input_shape

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all operators; errors as of `network.imported`."""
        place, value = self.walk()
        self.graph.output(matching.read(place, value, host=True))
        return self.graph.finish()

    def sample(self, node: Node) -> Value:
        """Sample in the axes of all readers: after leading views of the sample, in the axes of maps if possible."""
        module_shape = self._input_shape
        axes: Axes | None = in_order(module_shape)
        passed = [node]
        while len(passed[-1].users) == 1 and _HANDLERS.get(title_of(reader := next(iter(passed[-1].users)))) in _VIEWS:
            shape, turn = shape_of(reader), _permutation_of(reader)
            keeps_samples = shape[:1] == shape_of(node)[:1] and len(shape) > 1 and turn[:1] in ((), (0,))
            if axes is None or not keeps_samples or reader.meta["val"].dtype != node.meta["val"].dtype:
                break
            axes = tuple(axes[at - 1] for at in turn[1:]) if turn else reshaped(axes, shape[1:])
            passed.append(reader)
        shape = shape_of(passed[-1])[1:]
        if axes is None or len(shape) not in (2, 3):
            passed, shape, axes = [node], module_shape, in_order(module_shape)
        described = with_height(shape)
        self.graph = LayerGraph(self.name, described)
        self.graph.state_names = {*self.program.state_dict}
        runs = [run for axis in axes for run in axis]
        outer, as_given = outer_first(runs), tuple(range(len(runs)))
        if outer != as_given and described in (module_shape, (module_shape[0], 1, module_shape[-1])):
            raise UserError(
                f"{self.name} permutes its samples of {' x '.join(map(str, module_shape))}, and their sizes do not say "
                "whether they are permuted already: take them with the channels first"
            )
        if described != module_shape or outer != as_given:
            sizes = tuple(runs[at][0] for at in outer)
            order = tuple(outer.index(at) for at in as_given)
            self.graph.samples = ElementOrder(module_shape, sizes, order, described)
        value = Value(-1, described, in_order(shape))
        self.values |= dict.fromkeys(passed, value)
        return value

    def constant(self, node: Node, name: str, tensor: Tensor) -> Weight:
        buffer = "" if name else self.program.graph_signature.inputs_to_buffers.get(node.name, "")
        unnamed = f"{buffer}, {_NOT_SAVED}" if buffer else _IN_FORWARD
        return Weight(tensor, name, in_order(tuple(tensor.shape)), unnamed)

    def operator(self, node: Node, title: str, place: Place) -> Value | Weight:
        handler, self.node = _HANDLERS.get(title), node
        if handler is None:
            operands = [self.values[source] for source in node.all_input_nodes]
            if operands and all(isinstance(operand, Weight) for operand in operands):
                names = ", ".join(sorted(operand.name or "a constant" for operand in operands))
                reason = "store the result as a parameter, without pruning or parametrization"
                raise place.error(f"computes with {names} alone: {reason}")
            raise place.error(f"has no hardware; supported: {SUPPORTED}")
        output = handler(self, place, self.given(node))
        if isinstance(output, Value) and output.padding is None and output.sizes != shape_of(node)[1:]:
            raise place.error(f"gives {shape_of(node)[1:]}, which is followed as {output.sizes}")
        return output

    def weight(self, place: Place, kind: str, value: Any) -> Weight:
        """Argument from the module's state."""
        constant = needed(place, kind, value)
        assert isinstance(constant, Weight), "what `constant` makes"
        if not constant.name:
            raise place.error(f"has a {kind} that is {constant.unnamed}")
        return constant

    def weight_or_none(self, place: Place, kind: str, value: Any) -> Weight | None:
        """Optional argument from the module's state."""
        return None if value is None else self.weight(place, kind, value)


Handler = Callable[[ExportedLayers, Place, Arguments], Value | Weight]


def _permutation_of(node: Node) -> tuple[int, ...]:
    """Order of axes in the output of a permuting operator; empty for other operators."""
    if title_of(node).split(".")[1] not in _PERMUTATIONS:
        return ()
    (source,) = node.all_input_nodes
    # distinct sizes show the order of the axes in the output
    numbered = torch.empty(tuple(range(2, 2 + len(shape_of(source)))), device="meta")
    assert isinstance(node.target, torch._ops.OpOverload), "has a title of ATen"
    return tuple(size - 2 for size in node.target(numbered, *node.args[1:], **node.kwargs).shape)


# -- layers with weights -----------------------------------------------------------------------------------------------


def _convolution(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    weights = walk.weight(place, "weight", arguments["weight"]), walk.weight_or_none(place, "bias", arguments["bias"])
    if {*arguments["dilation"]} != {1}:
        raise place.error(f"has a dilation of {arguments['dilation']}, not 1")
    if arguments.get("transposed"):
        raise place.error("is transposed, which has no hardware")
    padding = _padding(arguments["padding"], weights[0].sizes[2:])
    return matching.convolution(
        walk.graph, place, arguments["input"], weights, arguments["groups"], arguments["stride"], padding
    )


def _padding(value: Any, kernel: Shape) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    if value == "same":
        return [((size - 1) // 2, size // 2) for size in kernel]
    return [(0, 0)] * len(kernel) if value == "valid" else [(zeros, zeros) for zeros in value]


def _pad(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    mode, ends = arguments.get("mode", "constant"), list(arguments["pad"])
    fill = (arguments["value"] or 0.0) if mode == "constant" else mode
    # pads start with the last axis
    rank = len(shape_of(walk.node))
    sides = {rank - 1 - number: pair for number, pair in enumerate(zip(ends[::2], ends[1::2], strict=True))}
    return matching.padded(walk.graph, place, arguments["self"], ends, sides, fill)


def _linear(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    weight, bias = (
        walk.weight(place, "weight", arguments["weight"]),
        walk.weight_or_none(place, "bias", arguments["bias"]),
    )
    return matching.product(walk.graph, place, arguments["input"], weight, bias, turned=False)


def _matmul(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    first, second = arguments.first(2)
    return matching.product(walk.graph, place, first, walk.weight(place, "weight", second), None)


def _addmm(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    for factor in ("beta", "alpha"):
        if arguments[factor] != 1:
            raise place.error(f"has a factor of {arguments[factor]}")
    bias, weight = walk.weight(place, "bias", arguments["self"]), walk.weight(place, "weight", arguments["mat2"])
    return matching.product(walk.graph, place, arguments["mat1"], weight, bias)


def _batch_norm(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    if arguments.get("training"):
        raise place.error("takes the statistics of a batch, not running ones")
    kinds = ("weight", "bias", "running_mean", "running_var")
    weights = {kind: walk.weight_or_none(place, kind, arguments[kind]) for kind in kinds}
    if weights["running_mean"] is None or weights["running_var"] is None:
        raise place.error("has no running statistics: track_running_stats=True is needed")
    return matching.batch_norm(walk.graph, place, arguments["input"], weights, arguments["eps"])


def _statistics_of_a_batch(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    raise place.of_layer.error("batch norm has no running statistics: track_running_stats=True is needed")


# -- activations and pools ---------------------------------------------------------------------------------------------


def _activation(made: Made) -> Handler:
    return lambda walk, place, arguments: matching.activation(walk.graph, place, arguments, made)


def _softmax(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    kind = place.operator.removeprefix("aten.").strip("_")
    return matching.softmax(place, arguments["self"], arguments["dim"], kind)


def _pool(kind: type[AveragePool | MaxPool]) -> Handler:
    fills = (-inf,) if kind is MaxPool else ()

    def handler(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
        value, within = matching.map_of(walk.graph, place, arguments["self"], fills, column=True)
        size, dilation = placed(within, arguments["kernel_size"], 1), arguments.get("dilation", 1)
        if placed(within, dilation, 1) != (1, 1):
            raise place.error(f"has a dilation of {dilation}, not 1")
        divisor = arguments.get("divisor_override")
        if divisor not in (None, prod(size)):
            raise place.error(f"divides by {divisor}, not by {prod(size)}")
        stride = placed(within, arguments["stride"], 1) if arguments["stride"] else size
        down, across = placed(within, arguments["padding"], 0)
        padding = down, down, across, across
        return matching.pool(walk.graph, place, (value, within), kind, size, stride, padding, arguments["ceil_mode"])

    return handler


def _adaptive(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
        value, within = matching.map_of(walk.graph, place, arguments["self"])
        (height, width), (down, across) = value.shape[1:], placed(within, shape_of(walk.node)[2:], 1)
        if height % down or width % across:
            raise place.error(f"to {down} x {across} has windows of several sizes of {height} x {width}")
        size = height // down, width // across
        return matching.pool(walk.graph, place, (value, within), kind, size, size)

    return handler


def _reduced(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
        (source,) = walk.node.all_input_nodes
        dims = arguments["dim"] or range(len(shape_of(source)))
        return matching.reduced(walk.graph, place, arguments["self"], dims, arguments["keepdim"], kind)

    return handler


# -- sums and views ----------------------------------------------------------------------------------------------------


def _add(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    if arguments["alpha"] != 1:
        raise place.error(f"has a factor of {arguments['alpha']}")
    both = arguments.first(2)
    for operand in both:
        if isinstance(operand, int | float):
            raise place.error(f"of a constant, {operand}, has no hardware")
    if sum(isinstance(operand, Weight) for operand in both) == 1:
        both = [walk.weight(place, "bias", operand) if isinstance(operand, Weight) else operand for operand in both]
    return matching.added(walk.graph, place, *both)


def _concatenation(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    return matching.concatenation(walk.graph, place, arguments["tensors"], arguments["dim"])


def _view(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value | Weight:
    """Same elements in axes of other sizes."""
    (value,), after = arguments.first(1), shape_of(walk.node)
    if isinstance(value, Weight):
        axes = reshaped(value.axes, after)
        if axes is None:
            raise place.error(f"of {value.shown} is no view of it")
        return replace(value, axes=axes)
    keeps_samples = shape_of(walk.node.all_input_nodes[0])[:1] == after[:1]
    shown = " x ".join(map(str, after))
    return matching.viewed(walk.graph, place, value, after[1:] if keeps_samples else None, shown)


def _permuted(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value | Weight:
    (value,), turn = arguments.first(1), _permutation_of(walk.node)
    if isinstance(value, Weight):
        return replace(value, axes=tuple(value.axes[axis] for axis in turn))
    return matching.permuted(walk.graph, place, value, turn)


def _same(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value | Weight:
    before, after = (node.meta["val"].dtype for node in (walk.node.all_input_nodes[0], walk.node))
    if before != after:
        raise place.error(f"to {after} has no hardware")
    (value,) = arguments.first(1)
    return value if isinstance(value, Weight) else matching.read(place, value, matching.FILLS, host=True)


def _slice(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value | Weight:
    """Slice of a whole axis, as written by ``x[:]``."""
    if shape_of(walk.node) != shape_of(walk.node.all_input_nodes[0]) or arguments["step"] != 1:
        raise place.error("has no hardware but of a whole axis")
    return _same(walk, place, arguments)


def _dropout(walk: ExportedLayers, place: Place, arguments: Arguments) -> Value:
    if arguments["train"]:
        raise place.error("is active in evaluation mode: give it training=self.training")
    return matching.read(place, arguments["input"], matching.FILLS, host=True)


_TITLES: dict[Handler, str] = {
    _convolution: "conv2d.default conv2d.padding convolution.default conv1d.default conv1d.padding",
    _pad: "pad.default constant_pad_nd.default",
    _linear: "linear.default",
    _matmul: "matmul.default mm.default",
    _addmm: "addmm.default",
    _batch_norm: "batch_norm.default _native_batch_norm_legit_no_training.default",
    _statistics_of_a_batch: "_native_batch_norm_legit.no_stats _native_batch_norm_legit.default",
    _softmax: "softmax.int log_softmax.int _softmax.default _log_softmax.default",
    _pool(MaxPool): (
        "max_pool2d.default max_pool2d_with_indices.default max_pool1d.default max_pool1d_with_indices.default"
    ),
    _pool(AveragePool): "avg_pool2d.default avg_pool1d.default",
    _adaptive(AveragePool): "adaptive_avg_pool2d.default _adaptive_avg_pool2d.default adaptive_avg_pool1d.default",
    _adaptive(MaxPool): "adaptive_max_pool2d.default adaptive_max_pool1d.default",
    _reduced(AveragePool): "mean.dim",
    _reduced(MaxPool): "amax.default",
    _add: "add.Tensor",
    _concatenation: "cat.default concat.default concatenate.default",
    _view: (
        "view.default reshape.default _unsafe_view.default flatten.using_ints squeeze.default squeeze.dim squeeze.dims "
        "unsqueeze.default unflatten.int"
    ),
    _permuted: " ".join(f"{title}.{kind}" for title in _PERMUTATIONS for kind in ("default", "int", "intlist")),
    _same: (
        "clone.default detach.default alias.default contiguous.default to.dtype _to_copy.default "
        "lift_fresh_copy.default"
    ),
    _slice: "slice.Tensor",
    _dropout: "dropout.default native_dropout.default",
}
_HANDLERS: dict[str, Handler] = {
    f"aten.{title}": handler for handler, titles in _TITLES.items() for title in titles.split()
} | {f"aten.{title}.default": _activation(made) for kind in ACTIVATIONS for title, made in kind.aten.items()}
_VIEWS = frozenset((_view, _permuted, _same, _slice))
"""Views: the elements of another tensor in other axes."""
