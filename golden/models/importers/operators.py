"""Operators of an exported program, each as a layer of a description or refused at the user's own line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from ...errors import UserError
from ..layers import (
    Add,
    AveragePool,
    BatchNorm,
    Convolution,
    Depthwise,
    Flatten,
    Layer,
    Linear,
    MaxPool,
    Pair,
    Relu,
    Shape,
    Sides,
)
from ..module import NetworkModule
from ..network import Network
from .graph import SUPPORTED, GraphLayer, LayerGraph, Place

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = str(Path(__file__).parents[1]) + os.sep
_FRAME = re.compile(r'File "(.+?)", line (\d+), in .*\n\s*(.*)')


def is_users(file: str) -> bool:
    """Tell whether a file of a traceback is neither PyTorch's nor of this package's own models."""
    return os.path.isfile(file) and not file.startswith((_TORCH, _OWN))


def shown(file: str) -> str:
    """Path of a file, short where it is below the working directory."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


class OperatorImport:
    """Walk over the operators of an exported program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Without operators in place.
    input_shape : tuple of int
        Shape of one sample.
    name : str
        Origin of the module for messages.
    """

    def __init__(self, program: torch.export.ExportedProgram, input_shape: Shape, name: str) -> None:
        self._program, self._name = program, name
        self._graph = LayerGraph(name, input_shape)
        signature = program.graph_signature
        self._tensor_names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        # number of the layer that gives each node's tensor; what a node pads, and by how much, for the convolution then
        self._values: dict[Node, int] = {}
        self._padded: dict[Node, tuple[Node, Sides]] = {}

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all nodes."""
        self._program.graph.eliminate_dead_code()
        for node in self._program.graph.nodes:
            if node.op == "placeholder" and node.name not in self._tensor_names:
                self._values[node] = -1
            elif node.op == "call_function" and _title(node) != "aten._assert_tensor_metadata.default":
                self._values[node] = self._operator(node)
            elif node.op == "output":
                self._output(node)
        return self._graph.finish()

    def _output(self, node: Node) -> None:
        (outputs,) = node.args
        assert isinstance(outputs, tuple), "an exported program gives a tuple"
        mutated = [one for one in self._program.graph_signature.output_specs if one.kind.name != "USER_OUTPUT"]
        if mutated:
            raise UserError(f"{self._name} changes {mutated[0].target or 'its input'} when it runs")
        last = len(self._graph.layers) - 1
        # a view of the last layer's outputs, such as a dropout, is they themselves
        if self._value(node, outputs[0]) != last:
            raise UserError(f"{self._name} gives the outputs of a layer that is not the last one")

    def _operator(self, node: Node) -> int:
        """Import one operator, and return the number of the layer that gives its outputs."""
        title = _title(node)
        if handler := _OPERATORS.get(title):
            return handler(self, node)
        own = [self._tensor_names[one.name] for one in node.all_input_nodes if one.name in self._tensor_names]
        if own and len(own) == len(node.all_input_nodes):
            reason = f"computes with {', '.join(sorted(own))}: remove the pruning or the parametrization first"
            raise self._place(node).error(f"{_plain(title)} {reason}")
        raise self._place(node).error(f"{_plain(title)} has no hardware; supported: {SUPPORTED}")

    # -- what operators have in common -------------------------------------------------------------------------------

    def _place(self, node: Node) -> Place:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        module = re.sub(r"^L\['self'\]\.?|^L__self__\.?", "", stack[-1][0]) if stack else ""
        within_torch = bool(stack) and str(stack[-1][1]).startswith("torch.nn.")
        title = module if within_torch and module else f"{module}.{node.name}".lstrip(".")
        frames = [one for one in _FRAME.findall(node.meta.get("stack_trace") or "") if is_users(one[0])]
        if frames:
            file, line, code = frames[-1]
            return Place(title, f"{shown(file)}:{line}", code.strip())
        return Place(title, f"{self._name}, layer {module or node.name}")

    def _arguments(self, node: Node) -> dict[str, Any]:
        """Arguments by name, defaults included."""
        schema = node.target._schema  # type: ignore[union-attr]
        given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
        defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
        return {**defaults, **given, **node.kwargs}

    def _value(self, node: Node, argument: object) -> int:
        """Number of the layer that gives an operator's argument."""
        if isinstance(argument, Node) and argument in self._padded:
            raise self._place(argument).error(f"{_plain(_title(argument))} has hardware before a convolution only")
        if isinstance(argument, Node) and argument in self._values:
            return self._values[argument]
        if isinstance(argument, Node):
            argument = self._tensor_names.get(argument.name, argument)
        raise self._place(node).error(f"{_plain(_title(node))} of {argument}, which is no output of a layer")

    def _tensors(self, node: Node, **arguments: object) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors of an operator and their names in the module's state, by argument; without those that are None."""
        tensors, names = {}, {}
        for kind, argument in arguments.items():
            if argument is None:
                continue
            if not isinstance(argument, Node) or argument.name not in self._tensor_names:
                raise self._place(node).error(
                    f"the {kind} of {_plain(_title(node))} is computed, not a parameter: remove the pruning or the "
                    "parametrization first"
                )
            names[kind] = name = self._tensor_names[argument.name]
            state = self._program.state_dict
            tensors[kind] = state[name] if name in state else self._program.constants[name]
        return tensors, names

    def _add(self, node: Node, layer: Layer, *sources: object, **tensors: object) -> int:
        place = self._place(node)
        own, names = self._tensors(node, **tensors)
        if "weight" in names and names["weight"].endswith(".weight"):
            place = Place(names["weight"].removesuffix(".weight"), place.where, place.code)
        read = tuple(self._value(node, source) for source in sources)
        return self._graph.add(GraphLayer(layer, read, place, own, names))

    def _refuse_unless(self, node: Node, condition: bool, reason: str) -> None:
        if not condition:
            raise self._place(node).error(f"{_plain(_title(node))} {reason}")

    # -- operators -----------------------------------------------------------------------------------------------------

    def _convolution(self, node: Node) -> int:
        given = self._arguments(node)
        self._refuse_unless(node, len(_shape(given["input"])) == 4, "of no map of channels has no hardware")
        weight = _shape(given["weight"])
        kernel, stride = (weight[2], weight[3]), _pair(given["stride"])
        self._refuse_unless(node, set(_pair(given["dilation"])) == {1}, f"has a dilation of {given['dilation']}, not 1")
        self._refuse_unless(node, not given.get("transposed"), "is transposed, which has no hardware")
        padding, source = _padding(given["padding"], kernel), given["input"]
        if source in self._padded:
            source, more = self._padded[source]
            padding = (padding[0] + more[0], padding[1] + more[1], padding[2] + more[2], padding[3] + more[3])
        channels, groups = weight[0], given["groups"]
        tensors = {"weight": given["weight"], "bias": given["bias"]}
        if groups == 1:
            return self._add(node, Convolution(channels, kernel, padding, stride), source, **tensors)
        depthwise = groups == channels == _shape(given["input"])[1]
        self._refuse_unless(
            node, depthwise, f"has {groups} groups of {channels} channels, which is neither 1 group nor one a channel"
        )
        return self._add(node, Depthwise(kernel, padding, stride), source, **tensors)

    def _pad(self, node: Node) -> int:
        given = self._arguments(node)
        mode, value, sides = given.get("mode", "constant"), given["value"], list(given["pad"])
        self._refuse_unless(node, mode == "constant" and not value, f"pads with {value or mode}, not with zeros")
        self._refuse_unless(node, min(sides, default=0) >= 0, f"has a negative padding, {sides}")
        self._refuse_unless(node, not any(sides[4:]), f"pads more than height and width, {sides}")
        left, right, top, bottom = (*sides, 0, 0, 0, 0)[:4]
        source = node.args[0]
        number = self._value(node, source)
        assert isinstance(source, Node), "what has a value is a node"
        self._padded[node] = source, (top, bottom, left, right)
        return number

    def _linear(self, node: Node) -> int:
        given = self._arguments(node)
        shape = _shape(given["input"])
        self._refuse_unless(node, len(shape) == 2, f"has an input of {shape[1:]}: flatten it first")
        layer = Linear(_shape(given["weight"])[0])
        return self._add(node, layer, given["input"], weight=given["weight"], bias=given["bias"])

    def _batch_norm(self, node: Node) -> int:
        given = self._arguments(node)
        self._refuse_unless(node, not given.get("training"), "takes the statistics of a batch, not running ones")
        statistics = {"running_mean": given["running_mean"], "running_var": given["running_var"]}
        missing = None in statistics.values()
        self._refuse_unless(node, not missing, "has no running statistics: track_running_stats=True is needed")
        number = self._add(node, BatchNorm(), given["input"], weight=given["weight"], bias=given["bias"], **statistics)
        self._graph.layers[number].eps = given["eps"]
        return number

    def _statistics_of_a_batch(self, node: Node) -> int:
        raise self._place(node).error("batch norm has no running statistics: track_running_stats=True is needed")

    def _relu(self, node: Node) -> int:
        return self._add(node, Relu(), node.args[0])

    def _relu6(self, node: Node) -> int:
        return self._add(node, Relu(6.0), node.args[0])

    def _hardtanh(self, node: Node) -> int:
        given = self._arguments(node)
        least, most = (given.get(name[0], given.get(name[1])) for name in (("min_val", "min"), ("max_val", "max")))
        limits = f"from {least} to {most}, not from 0"
        exact = bool(least == 0) and isinstance(most, int | float | None)
        self._refuse_unless(node, exact, f"clips {limits}")
        return self._add(node, Relu(None if most is None else float(most)), node.args[0])

    def _leaky_relu(self, node: Node) -> int:
        return self._add(node, Relu(slope=float(self._arguments(node)["negative_slope"])), node.args[0])

    def _max_pool(self, node: Node) -> int:
        given = self._arguments(node)
        size = _pair(given["kernel_size"])
        self._refuse_unless(node, set(_pair(given["dilation"])) == {1}, f"has a dilation of {given['dilation']}, not 1")
        self._refuse_unless(node, len(_shape(node.args[0])) == 4, "of no map of channels has no hardware")
        stride = _pair(given["stride"]) if given["stride"] else size
        before, after, padding = _shape(node.args[0])[2:], _shape(node)[2:], _pair(given["padding"])
        # with ceil_mode the last windows go further beyond the map
        (top, bottom), (left, right) = (
            (padding[at], max(padding[at], (after[at] - 1) * stride[at] + size[at] - before[at] - padding[at]))
            for at in (0, 1)
        )
        return self._pooled(node, MaxPool(size, stride, (top, bottom, left, right)))

    def _average_pool(self, node: Node) -> int:
        given = self._arguments(node)
        size = _pair(given["kernel_size"])
        self._check_window(node, given)
        stride = _pair(given["stride"]) if given["stride"] else size
        whole = size == _shape(node.args[0])[2:]
        self._refuse_unless(node, whole or stride == size, f"has a stride of {stride}, not that of its size {size}")
        divisor = given["divisor_override"]
        self._refuse_unless(node, divisor in (None, prod(size)), f"divides by {divisor}, not by {prod(size)}")
        return self._pooled(node, AveragePool(size))

    def _check_window(self, node: Node, given: dict[str, Any]) -> None:
        self._refuse_unless(node, len(_shape(node.args[0])) == 4, "of no map of channels has no hardware")
        self._refuse_unless(node, not any(_pair(given["padding"])), f"has a padding of {given['padding']}, not 0")
        size, step = _pair(given["kernel_size"]), _pair(given["stride"] or given["kernel_size"])
        before, after = _shape(node.args[0])[2:], _shape(node)[2:]
        exact = tuple((before[at] - size[at]) // step[at] + 1 for at in (0, 1))
        self._refuse_unless(node, after == exact, "has ceil_mode, which has no hardware")

    def _adaptive_average(self, node: Node) -> int:
        height, width = _shape(node.args[0])[2:]
        down, across = _pair(node.args[1])
        exact = not height % down and not width % across
        self._refuse_unless(node, exact, f"to {down} x {across} has windows of several sizes of {height} x {width}")
        return self._pooled(node, AveragePool((height // down, width // across)))

    def _mean(self, node: Node) -> int:
        given, shape = self._arguments(node), _shape(node.args[0])
        dims = sorted(one % len(shape) for one in given["dim"] or range(len(shape)))
        self._refuse_unless(
            node, len(shape) == 4 and dims == [2, 3], f"over {dims} is not over a map's height and width"
        )
        number = self._pooled(node, AveragePool((shape[2], shape[3])))
        return number if given["keepdim"] else self._flattened(node, number)

    def _pooled(self, node: Node, layer: MaxPool | AveragePool) -> int:
        if layer.size == layer.stride == (1, 1):
            return self._value(node, node.args[0])
        return self._add(node, layer, node.args[0])

    def _add_tensors(self, node: Node) -> int:
        given = self._arguments(node)
        first, second = given["self"], given["other"]
        self._refuse_unless(node, given["alpha"] == 1, f"has a factor of {given['alpha']}")
        for one in (first, second):
            self._refuse_unless(node, isinstance(one, Node), f"of a constant, {one}, has no hardware")
        shapes = _shape(first)[1:], _shape(second)[1:]
        self._refuse_unless(node, shapes[0] == shapes[1], f"adds {shapes[0]} to {shapes[1]}")
        return self._add(node, Add(), first, second)

    def _view(self, node: Node) -> int:
        """View that flattens, or that leaves all as it is."""
        before, after = _shape(node.args[0]), _shape(node)
        number = self._value(node, node.args[0])
        if before == after:
            return number
        flat = after[:1] == before[:1] and set(after[2:]) <= {1} and after[1:2] == (prod(before[1:]),)
        self._refuse_unless(node, flat, f"from {before[1:]} to {after[1:]} does not flatten each sample")
        return self._flattened(node, number)

    def _flattened(self, node: Node, number: int) -> int:
        return self._graph.add(GraphLayer(Flatten(), (number,), self._place(node)))

    def _same(self, node: Node) -> int:
        first = node.args[0]
        assert isinstance(first, Node), "an operator of a tensor"
        kept = first.meta["val"].dtype == node.meta["val"].dtype
        self._refuse_unless(node, kept, f"to {node.meta['val'].dtype} has no hardware")
        return self._value(node, first)

    def _dropout(self, node: Node) -> int:
        trained = self._arguments(node)["train"]
        self._refuse_unless(node, not trained, "is active in evaluation mode: give it training=self.training")
        return self._value(node, node.args[0])

    def _item(self, node: Node) -> int:
        self._refuse_unless(node, bool(node.args[1] == 0), "of a second output of an operator has no hardware")
        return self._value(node, node.args[0])


def _title(node: Node) -> str:
    """Name of an operator: ``aten.conv2d.default``."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__name__", "?")


def _plain(title: str) -> str:
    """Operator without its overload: ``aten.conv2d``."""
    return ".".join(title.split(".")[:2])


def _shape(node: object) -> Shape:
    """Shape of an operator's result, the batch included; of the first where it has several."""
    assert isinstance(node, Node), "an operator of a tensor"
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple | list) else value).shape)


def _pair(value: Any) -> Pair:
    values = [value] if isinstance(value, int) else list(value)
    return values[0], values[-1]


def _padding(value: Any, kernel: Pair) -> Sides:
    if value == "same":
        (top, bottom), (left, right) = (((size - 1) // 2, size // 2) for size in kernel)
        return top, bottom, left, right
    down, across = (0, 0) if value == "valid" else _pair(value)
    return down, down, across, across


_HANDLERS: dict[Callable[[OperatorImport, Node], int], str] = {
    OperatorImport._convolution: "conv2d.default conv2d.padding convolution.default",
    OperatorImport._pad: "pad.default constant_pad_nd.default",
    OperatorImport._linear: "linear.default",
    OperatorImport._batch_norm: "batch_norm.default _native_batch_norm_legit_no_training.default",
    OperatorImport._statistics_of_a_batch: "_native_batch_norm_legit.no_stats _native_batch_norm_legit.default",
    OperatorImport._relu: "relu.default",
    OperatorImport._relu6: "relu6.default",
    OperatorImport._hardtanh: "hardtanh.default clamp.default clamp_min.default",
    OperatorImport._leaky_relu: "leaky_relu.default",
    OperatorImport._max_pool: "max_pool2d.default max_pool2d_with_indices.default",
    OperatorImport._average_pool: "avg_pool2d.default",
    OperatorImport._adaptive_average: "adaptive_avg_pool2d.default _adaptive_avg_pool2d.default",
    OperatorImport._mean: "mean.dim",
    OperatorImport._add_tensors: "add.Tensor",
    OperatorImport._view: (
        "view.default reshape.default _unsafe_view.default flatten.using_ints squeeze.default squeeze.dim squeeze.dims"
    ),
    OperatorImport._same: "clone.default detach.default alias.default contiguous.default to.dtype _to_copy.default",
    OperatorImport._dropout: "dropout.default native_dropout.default",
}
_OPERATORS = {f"aten.{title}": handler for handler, titles in _HANDLERS.items() for title in titles.split()}
_OPERATORS["getitem"] = OperatorImport._item
