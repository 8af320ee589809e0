"""Graph of an exported program: its tensors, and a walk over its operators."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.fx import Node

from ...errors import UserError
from ...models.element_order import ElementOrder
from ...models.layers import Flatten, Layer, Shape
from ...models.module import NetworkModule
from ...models.network import Network
from .axes import Axes, Value, in_order, joined, outer_first, reshaped
from .graph import SUPPORTED, GraphLayer, LayerGraph, Place

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = str(Path(__file__).parents[2] / "models") + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = ("site-packages" + os.sep, "dist-packages" + os.sep)
_FRAME = re.compile(r'File "(.+?)", line (\d+), in .*\n\s*(.*)')
_IN_FORWARD = "a tensor that forward makes or that is an attribute: register it as a parameter or as a buffer"
_NOT_SAVED = "a buffer that no state dict has: register it without persistent=False"


class Constant(NamedTuple):
    """Tensor of the module.

    Parameters
    ----------
    name : str
        In the module's state; empty for one that is not there.
    tensor : Tensor
    axes : tuple
        All its axes.
    buffer : str
        Name of a buffer that is not there.
    """

    name: str
    tensor: Tensor
    axes: Axes
    buffer: str = ""

    @property
    def shown(self) -> str:
        """Name, or what it is without one."""
        return self.name or (f"{self.buffer}, {_NOT_SAVED}" if self.buffer else _IN_FORWARD)


PERMUTATIONS = frozenset(
    ("permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint")
)
"""Operators of ATen that give the axes of a tensor in another order."""
Handler = Callable[["ExportedGraph", Node], Value | Constant]
"""Function of the graph and a node: adds the layer, and returns what it gives."""


def is_users(file: str) -> bool:
    """Tell whether a file of a traceback is neither PyTorch's, Python's nor of this package's own models."""
    if not os.path.isfile(file) or file.startswith((_TORCH, _OWN)):
        return False
    return not file.startswith(_STANDARD) or file[len(_STANDARD) :].startswith(_PACKAGES)


def shown(file: str) -> str:
    """Path of a file, short where it is below the working directory."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


class ExportedGraph:
    """Walk over the operators of an exported program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Without operators in place.
    input_shape : tuple of int
        Shape of one sample as the module takes it.
    name : str
        Origin of the module for messages.
    handlers : mapping
        By title of an operator: the function that adds its layer.
    views : set of str
        Titles of operators that give the elements of a tensor in other axes.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        input_shape: Shape,
        name: str,
        handlers: Mapping[str, Handler],
        views: frozenset[str],
    ) -> None:
        self._program, self._name, self._handlers, self._views = program, name, handlers, views
        self._input_shape = input_shape
        self._values: dict[Node, Value | Constant] = {}

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all nodes."""
        self._program.graph.eliminate_dead_code()
        tensors = tensors_of(self._program)
        for node in self._program.graph.nodes:
            if node in self._values:
                continue
            if node.op == "placeholder" and node.name in tensors:
                own, tensor = tensors[node.name]
                buffer = "" if own else self._program.graph_signature.inputs_to_buffers.get(node.name, "")
                self._values[node] = Constant(own, tensor, in_order(tuple(tensor.shape)), buffer)
            elif node.op == "placeholder":
                self._sample(node)
            elif node.op == "call_function" and title_of(node) != "aten._assert_tensor_metadata.default":
                self._values[node] = self._operator(node)
            elif node.op == "output":
                self._output(node)
        return self.layers.finish()

    def _sample(self, node: Node) -> None:
        """Take the sample, in the axes that all that reads it sees it in: those of maps if there are any."""
        axes: Axes | None = in_order(self._input_shape)
        last = node
        passed = [node]
        while len(last.users) == 1 and title_of(reader := next(iter(last.users))) in self._views:
            shape = shape_of(reader)
            turn = permutation_of(reader)
            kept = shape[:1] == shape_of(node)[:1] and len(shape) > 1 and turn[:1] in ((), (0,))
            if axes is None or not kept or reader.meta["val"].dtype != node.meta["val"].dtype:
                break
            axes = tuple(axes[at - 1] for at in turn[1:]) if turn else reshaped(axes, shape[1:])
            last = reader
            passed.append(reader)
        shape = shape_of(last)[1:]
        if axes is None or len(shape) not in (2, 3):
            passed, shape, axes = [node], self._input_shape, in_order(self._input_shape)
        described = (shape[0], 1, shape[1]) if len(shape) == 2 else shape
        self.layers = LayerGraph(self._name, described)
        self.layers.state_names = {*self._program.state_dict}
        self.shapes = {-1: described}
        self._values |= dict.fromkeys(passed, Value(-1, described, in_order(shape)))
        runs = [run for axis in axes for run in axis]
        outer, as_given = outer_first(runs), tuple(range(len(runs)))
        given = self._input_shape
        if outer != as_given and described in (given, (given[0], 1, given[-1])):
            raise UserError(
                f"{self._name} permutes its samples of {' x '.join(map(str, given))}, and their sizes do not say "
                "whether they are permuted already: take them with the channels first"
            )
        if described != given or outer != as_given:
            sizes = tuple(runs[at][0] for at in outer)
            order = tuple(outer.index(at) for at in as_given)
            self.layers.samples = ElementOrder(given, sizes, order, described)

    def _output(self, node: Node) -> None:
        (outputs,) = node.args
        assert isinstance(outputs, tuple), "an exported program gives a tuple"
        mutated = [one for one in self._program.graph_signature.output_specs if one.kind.name != "USER_OUTPUT"]
        if mutated:
            raise UserError(f"{self._name} changes {mutated[0].target or 'its input'} when it runs")
        value = self.value(node, outputs[0], host=True)
        # a view of the last layer's outputs, such as a dropout, is they themselves
        if value.layer != len(self.layers.layers) - 1:
            raise UserError(f"{self._name} gives the outputs of a layer that is not the last one")
        if joined(run for axis in value.axes for run in axis) != joined([(prod(value.shape), 1)]):
            raise UserError(f"{self._name} gives its outputs in another order than that of its last layer")
        if value.host:
            self.layers.left_to_host.append(value.host)

    def _operator(self, node: Node) -> Value | Constant:
        """Import one operator, and return what gives its outputs."""
        title = title_of(node)
        if handler := self._handlers.get(title):
            return handler(self, node)
        read = [self._values[one] for one in node.all_input_nodes]
        own = [one.name or "a constant" for one in read if isinstance(one, Constant)]
        if own and len(own) == len(read):
            names = ", ".join(sorted(own))
            reason = f"computes with {names} alone: store the result as a parameter, without pruning or parametrization"
            raise self.place(node).error(f"{plain(node)} {reason}")
        raise self.place(node).error(f"{plain(node)} has no hardware; supported: {SUPPORTED}")

    # -- what operators have in common -------------------------------------------------------------------------------

    def place(self, node: Node) -> Place:
        """Line of the user's file at which an operator stands, see `place_of`."""
        return place_of(node, self._name)

    def refuse(self, node: Node, reason: str) -> NoReturn:
        """Refuse an operator at its line."""
        raise self.place(node).error(f"{plain(node)} {reason}")

    def refuse_unless(self, node: Node, condition: bool, reason: str) -> None:
        """Refuse an operator at its line unless a condition holds."""
        if not condition:
            self.refuse(node, reason)

    def read(self, node: Node, argument: object) -> Value | Constant:
        """Argument of an operator, as it is."""
        if isinstance(argument, Node) and argument in self._values:
            return self._values[argument]
        raise self.place(node).error(f"{plain(node)} of {argument}, which is no output of a layer")

    def value(self, node: Node, argument: object, host: bool = False, padded: bool = False) -> Value:
        """Argument that depends on the sample; what only some operators read is allowed by name."""
        found = self.read(node, argument)
        assert isinstance(argument, Node), "what is read is a node"
        if isinstance(found, Constant):
            self.refuse(node, f"of {found.shown}, which is no output of a layer")
        if found.padding is not None and not padded:
            self.refuse(argument, "has hardware before a convolution only")
        if found.host and not host:
            raise self.place(argument).error(f"{found.host} has no hardware but at the end, where the host does it")
        return found

    def constant(self, node: Node, kind: str, argument: object) -> Constant:
        """Argument that is a tensor of the module."""
        found = self._values.get(argument) if isinstance(argument, Node) else None
        if not isinstance(found, Constant):
            raise self.place(node).error(
                f"the {kind} of {plain(node)} is computed, not a parameter: remove the pruning or the "
                "parametrization first"
            )
        if not found.name:
            raise self.place(node).error(f"the {kind} of {plain(node)} is {found.shown}")
        return found

    def add(
        self,
        node: Node,
        layer: Layer,
        *sources: Value,
        order: ElementOrder | None = None,
        instead_of: int | None = None,
        eps: float = 0.0,
        constants: Mapping[str, Constant | None] = MappingProxyType({}),
    ) -> int:
        """Add a layer with its tensors, and return its number."""
        given = {kind: one for kind, one in constants.items() if one is not None}
        tensors = {kind: one.tensor for kind, one in given.items()}
        names = {kind: one.name for kind, one in given.items()}
        if "bias" in tensors:
            tensors["bias"] = tensors["bias"].reshape(joined_shape(given["bias"]))
        read = tuple(source.layer for source in sources)
        place = self.place(node)
        return self.layers.add(GraphLayer(layer, read, place, tensors, names, eps, order=order), instead_of)

    def each(self, node: Node, layer: Layer, value: Value) -> Value:
        """Add a layer that gives one element for each."""
        return value._replace(layer=self._numbered(self.add(node, layer, value), value.shape))

    def gives(self, node: Node, number: int, shape: Shape, axes: Axes) -> Value:
        """Outputs of a layer that gives this shape, in these axes."""
        return self.viewed(node, Value(self._numbered(number, shape), shape, axes))

    def _numbered(self, number: int, shape: Shape) -> int:
        self.shapes[number] = shape
        return number

    def viewed(self, node: Node, value: Value) -> Value:
        """Tensor in other axes: maps that become a vector are flattened, and a vector of maps can be maps again."""
        if len(value.axes) == 1 and len(value.shape) > 1:
            number = self.add(node, Flatten(), value)
            shape = (prod(value.shape),)
            return value._replace(layer=self._numbered(number, shape), shape=shape)
        if len(value.axes) > 1 and value.layer >= 0 and isinstance(self.layers.layers[value.layer].layer, Flatten):
            self.layers.replaced.add(value.layer)
            (before,) = self.layers.layers[value.layer].sources
            return value._replace(layer=before, shape=self.shapes[before])
        return value


def tensors_of(program: torch.export.ExportedProgram) -> dict[str, tuple[str, Tensor]]:
    """Tensors of a module by the names of their placeholders, each with its name in the state if it is there."""
    signature, state = program.graph_signature, program.state_dict
    owned = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found = {}
    for placeholder, name in {**owned, **signature.inputs_to_lifted_tensor_constants}.items():
        tensor = state[name] if name in state else program.constants[name]
        found[placeholder] = (name if placeholder in owned and name in state else "", tensor)
    return found


def place_of(node: Node, name: str) -> Place:
    """Line of the user's file at which an operator stands, and its layer where the line calls several.

    Parameters
    ----------
    node : Node
    name : str
        Origin of the module for messages.
    """
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = re.sub(r"^L\['self'\]\.?|^L__self__\.?", "", stack[-1][0]) if stack else ""
    within = [str(one[1]).startswith("torch.nn.") for one in stack]
    title = module if within[-1:] == [True] and module else f"{module}.{node.name}".lstrip(".")
    frames = [one for one in _FRAME.findall(node.meta.get("stack_trace") or "") if is_users(one[0])]
    if frames:
        file, line, code = frames[-1]
        nested = f", layer {module}" if within[-2:] == [True, True] else ""
        return Place(title, f"{shown(file)}:{line}{nested}", code.strip())
    return Place(title, f"{name}, layer {module or node.name}")


def joined_shape(constant: Constant) -> tuple[int, ...]:
    """Shape of a constant without sizes of 1, if it has at most one other: that of a bias."""
    return tuple(constant.tensor.shape) if sum(map(bool, constant.axes)) > 1 else (constant.tensor.numel(),)


def title_of(node: Node) -> str:
    """Name of an operator: ``aten.conv2d.default``."""
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__name__", "?")


def plain(node: Node) -> str:
    """Operator without its overload: ``aten.conv2d``."""
    return ".".join(title_of(node).split(".")[:2])


def shape_of(node: object) -> Shape:
    """Shape of an operator's result, the batch included; of the first where it has several."""
    assert isinstance(node, Node), "an operator of a tensor"
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple | list) else value).shape)


def permutation_of(node: Node) -> tuple[int, ...]:
    """Numbers of the axes of its tensor that an operator gives, in order; empty if it is none that permutes."""
    if title_of(node).split(".")[1] not in PERMUTATIONS:
        return ()
    # sizes that are all different say where each axis went
    numbered = torch.empty(tuple(range(2, 2 + len(shape_of(node.args[0])))), device="meta")
    assert isinstance(node.target, torch._ops.OpOverload), "has a title of ATen"
    return tuple(size - 2 for size in node.target(numbered, *node.args[1:], **node.kwargs).shape)


def arguments(node: Node) -> dict[str, Any]:
    """Arguments of an operator by name, defaults included."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
    defaults = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    return {**defaults, **given, **node.kwargs}
