"""Layers of an exported program: what its operators are by the arguments that ATen has for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
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
"""Operators of ATen that give the axes of a tensor in another order."""


class ExportedLayers(ExportedGraph):
    """Walk over the operators of a program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Without operators in place.
    input_shape : tuple of int
        Shape of one sample as the module takes it.
    name : str
        Origin of the module for messages.

    Attributes
    ----------
    node : Node
        Operator that is imported.
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
        """Take the sample, in the axes that all that reads it sees it in: those of maps if there are any."""
        given = self._input_shape
        axes: Axes | None = in_order(given)
        passed = [node]
        while len(passed[-1].users) == 1 and _HANDLERS.get(title_of(reader := next(iter(passed[-1].users)))) in _VIEWS:
            shape, turn = shape_of(reader), _permutation_of(reader)
            kept = shape[:1] == shape_of(node)[:1] and len(shape) > 1 and turn[:1] in ((), (0,))
            if axes is None or not kept or reader.meta["val"].dtype != node.meta["val"].dtype:
                break
            axes = tuple(axes[at - 1] for at in turn[1:]) if turn else reshaped(axes, shape[1:])
            passed.append(reader)
        shape = shape_of(passed[-1])[1:]
        if axes is None or len(shape) not in (2, 3):
            passed, shape, axes = [node], given, in_order(given)
        described = with_height(shape)
        self.graph = LayerGraph(self.name, described)
        self.graph.state_names = {*self.program.state_dict}
        runs = [run for axis in axes for run in axis]
        outer, as_given = outer_first(runs), tuple(range(len(runs)))
        if outer != as_given and described in (given, (given[0], 1, given[-1])):
            raise UserError(
                f"{self.name} permutes its samples of {' x '.join(map(str, given))}, and their sizes do not say "
                "whether they are permuted already: take them with the channels first"
            )
        if described != given or outer != as_given:
            sizes = tuple(runs[at][0] for at in outer)
            order = tuple(outer.index(at) for at in as_given)
            self.graph.samples = ElementOrder(given, sizes, order, described)
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
            own = [self.values[one] for one in node.all_input_nodes]
            if own and all(isinstance(one, Weight) for one in own):
                names = ", ".join(sorted(one.name or "a constant" for one in own))
                reason = "store the result as a parameter, without pruning or parametrization"
                raise place.error(f"computes with {names} alone: {reason}")
            raise place.error(f"has no hardware; supported: {SUPPORTED}")
        found = handler(self, place, self.given(node))
        if isinstance(found, Value) and found.padding is None and found.sizes != shape_of(node)[1:]:
            raise place.error(f"gives {shape_of(node)[1:]}, which is followed as {found.sizes}")
        return found

    def weight(self, place: Place, kind: str, value: Any) -> Weight:
        """Argument that is a tensor of the module's state."""
        found = needed(place, kind, value)
        assert isinstance(found, Weight), "what `constant` makes"
        if not found.name:
            raise place.error(f"has a {kind} that is {found.unnamed}")
        return found

    def weight_or_none(self, place: Place, kind: str, value: Any) -> Weight | None:
        """The same, if it is there."""
        return None if value is None else self.weight(place, kind, value)


Handler = Callable[[ExportedLayers, Place, Arguments], Value | Weight]


def _permutation_of(node: Node) -> tuple[int, ...]:
    """Numbers of the axes of its tensor that an operator gives, in order; empty if it is none that permutes."""
    if title_of(node).split(".")[1] not in _PERMUTATIONS:
        return ()
    (given,) = node.all_input_nodes
    # sizes that are all different say where each axis went
    numbered = torch.empty(tuple(range(2, 2 + len(shape_of(given)))), device="meta")
    assert isinstance(node.target, torch._ops.OpOverload), "has a title of ATen"
    return tuple(size - 2 for size in node.target(numbered, *node.args[1:], **node.kwargs).shape)


# -- layers with weights -----------------------------------------------------------------------------------------------


def _convolution(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    weights = walk.weight(place, "weight", given["weight"]), walk.weight_or_none(place, "bias", given["bias"])
    if {*given["dilation"]} != {1}:
        raise place.error(f"has a dilation of {given['dilation']}, not 1")
    if given.get("transposed"):
        raise place.error("is transposed, which has no hardware")
    padding = _padding(given["padding"], weights[0].sizes[2:])
    return matching.convolution(walk.graph, place, given["input"], weights, given["groups"], given["stride"], padding)


def _padding(value: Any, kernel: Shape) -> list[tuple[int, int]]:
    """Zeros before and behind each axis."""
    if value == "same":
        return [((size - 1) // 2, size // 2) for size in kernel]
    return [(0, 0)] * len(kernel) if value == "valid" else [(zeros, zeros) for zeros in value]


def _pad(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    mode, value, ends = given.get("mode", "constant"), given["value"], list(given["pad"])
    filled = str(value or mode) if mode != "constant" or value else ""
    # the last axis comes first
    rank = len(shape_of(walk.node))
    sides = {rank - 1 - at: pair for at, pair in enumerate(zip(ends[::2], ends[1::2], strict=True))}
    return matching.padded(walk.graph, place, given["self"], ends, sides, filled)


def _linear(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    weight, bias = walk.weight(place, "weight", given["weight"]), walk.weight_or_none(place, "bias", given["bias"])
    return matching.product(walk.graph, place, given["input"], weight, bias, turned=False)


def _matmul(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    first, second = given.first(2)
    return matching.product(walk.graph, place, first, walk.weight(place, "weight", second), None)


def _addmm(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    for factor in ("beta", "alpha"):
        if given[factor] != 1:
            raise place.error(f"has a factor of {given[factor]}")
    bias, weight = walk.weight(place, "bias", given["self"]), walk.weight(place, "weight", given["mat2"])
    return matching.product(walk.graph, place, given["mat1"], weight, bias)


def _batch_norm(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    if given.get("training"):
        raise place.error("takes the statistics of a batch, not running ones")
    kinds = ("weight", "bias", "running_mean", "running_var")
    weights = {kind: walk.weight_or_none(place, kind, given[kind]) for kind in kinds}
    if weights["running_mean"] is None or weights["running_var"] is None:
        raise place.error("has no running statistics: track_running_stats=True is needed")
    return matching.batch_norm(walk.graph, place, given["input"], weights, given["eps"])


def _statistics_of_a_batch(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    raise place.of_layer.error("batch norm has no running statistics: track_running_stats=True is needed")


# -- activations and pools ---------------------------------------------------------------------------------------------


def _activation(made: Made) -> Handler:
    return lambda walk, place, given: matching.activation(walk.graph, place, given, made)


def _softmax(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    kind = place.operator.removeprefix("aten.").strip("_")
    return matching.softmax(place, given["self"], given["dim"], kind)


def _pool(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
        value, within = matching.map_of(walk.graph, place, given["self"], column=True)
        size, dilation = placed(within, given["kernel_size"], 1), given.get("dilation", 1)
        if placed(within, dilation, 1) != (1, 1):
            raise place.error(f"has a dilation of {dilation}, not 1")
        divisor = given.get("divisor_override")
        if divisor not in (None, prod(size)):
            raise place.error(f"divides by {divisor}, not by {prod(size)}")
        stride = placed(within, given["stride"], 1) if given["stride"] else size
        down, across = placed(within, given["padding"], 0)
        padding = down, down, across, across
        return matching.pool(walk.graph, place, (value, within), kind, size, stride, padding, given["ceil_mode"])

    return handler


def _adaptive(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
        value, within = matching.map_of(walk.graph, place, given["self"])
        (height, width), (down, across) = value.shape[1:], placed(within, shape_of(walk.node)[2:], 1)
        if height % down or width % across:
            raise place.error(f"to {down} x {across} has windows of several sizes of {height} x {width}")
        size = height // down, width // across
        return matching.pool(walk.graph, place, (value, within), kind, size, size)

    return handler


def _reduced(kind: type[AveragePool | MaxPool]) -> Handler:
    def handler(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
        (source,) = walk.node.all_input_nodes
        dims = given["dim"] or range(len(shape_of(source)))
        return matching.reduced(walk.graph, place, given["self"], dims, given["keepdim"], kind)

    return handler


# -- sums and views ----------------------------------------------------------------------------------------------------


def _add(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    if given["alpha"] != 1:
        raise place.error(f"has a factor of {given['alpha']}")
    both = given.first(2)
    for one in both:
        if isinstance(one, int | float):
            raise place.error(f"of a constant, {one}, has no hardware")
    if sum(isinstance(one, Weight) for one in both) == 1:
        both = [walk.weight(place, "bias", one) if isinstance(one, Weight) else one for one in both]
    return matching.added(walk.graph, place, *both)


def _concatenation(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    return matching.concatenation(walk.graph, place, given["tensors"], given["dim"])


def _view(walk: ExportedLayers, place: Place, given: Arguments) -> Value | Weight:
    """Same elements in axes of other sizes."""
    (value,), after = given.first(1), shape_of(walk.node)
    if isinstance(value, Weight):
        axes = reshaped(value.axes, after)
        if axes is None:
            raise place.error(f"of {value.shown} is no view of it")
        return replace(value, axes=axes)
    kept = shape_of(walk.node.all_input_nodes[0])[:1] == after[:1]
    shown = " x ".join(map(str, after))
    return matching.viewed(walk.graph, place, value, after[1:] if kept else None, shown)


def _permuted(walk: ExportedLayers, place: Place, given: Arguments) -> Value | Weight:
    (value,), turn = given.first(1), _permutation_of(walk.node)
    if isinstance(value, Weight):
        return replace(value, axes=tuple(value.axes[at] for at in turn))
    return matching.permuted(walk.graph, place, value, turn)


def _same(walk: ExportedLayers, place: Place, given: Arguments) -> Value | Weight:
    before, after = (node.meta["val"].dtype for node in (walk.node.all_input_nodes[0], walk.node))
    if before != after:
        raise place.error(f"to {after} has no hardware")
    (value,) = given.first(1)
    return value if isinstance(value, Weight) else matching.read(place, value, padded=True, host=True)


def _slice(walk: ExportedLayers, place: Place, given: Arguments) -> Value | Weight:
    """Slice of a whole axis, as ``x[:]`` writes it."""
    if shape_of(walk.node) != shape_of(walk.node.all_input_nodes[0]) or given["step"] != 1:
        raise place.error("has no hardware but of a whole axis")
    return _same(walk, place, given)


def _dropout(walk: ExportedLayers, place: Place, given: Arguments) -> Value:
    if given["train"]:
        raise place.error("is active in evaluation mode: give it training=self.training")
    return matching.read(place, given["input"], padded=True, host=True)


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
"""Tensors that are the elements of another, in other axes."""
