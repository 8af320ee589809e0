"""Traversal of an ONNX file's nodes, with checks and names for every kind of network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..models.stages import excess
from .graph import Arguments, Place, first_line, onnx_arguments
from .onnx_constants import Constants
from .onnx_file import STANDARD

if TYPE_CHECKING:
    import onnx

FLOATS = (1, 11)
"""float32 and float64 among the types of ONNX."""


class OtherSampleError(Exception):
    """Request to restart a traversal with another view of the sample."""


class OnnxGraph(ABC):
    """Traversal of a file's nodes; a subclass imports each operator.

    Parameters
    ----------
    name : str
        Name of the file for messages.
    opset : int
        Version of the operators.

    Attributes
    ----------
    read_names : set of str
        Names of all inputs of nodes, and of outputs.
    values : dict of str to Any
        Tensors depending on the sample, in the subclass's form.
    """

    most_axes = 64
    """Largest number of axes of a sample."""

    def __init__(self, model: onnx.ModelProto, name: str, opset: int) -> None:
        self.opset, self.name = opset, name
        self.read_names = {read for node in model.graph.node for read in node.input}
        self.read_names |= {output.name for output in model.graph.output}
        self._model = model

    @abstractmethod
    def sample(self, name: str, batch: int, shape: tuple[int, ...]) -> Any:
        """Value of the sample; `batch` is 0 for an open batch."""

    @abstractmethod
    def sizes(self, value: Any) -> tuple[int, ...]:
        """Shape of a tensor, with the batch first."""

    @abstractmethod
    def constant(self, name: str) -> Any:
        """Constant by name, as an operand."""

    @abstractmethod
    def operator(self, node: onnx.NodeProto, arguments: Arguments, place: Place) -> list[Any]:
        """Outputs of a node with an input depending on the sample."""

    def walk(self) -> tuple[Place, Any]:
        """Import all nodes; return the output, with a place for messages."""
        self.constants = Constants(self._model.graph, self.name, self.opset)
        self.values: dict[str, Any] = {}
        inputs = [tensor for tensor in self._model.graph.input if tensor.name not in self.constants]
        outputs = [tensor.name for tensor in self._model.graph.output]
        for what, names in (("takes {} inputs", [tensor.name for tensor in inputs]), ("gives {} outputs", outputs)):
            if len(names) != 1:
                raise UserError(f"{self.name} {what.format(len(names))} ({', '.join(names)}): a network here has one")
        self.values[inputs[0].name] = self._sample(inputs[0])
        for node in _ordered(self._model, {*self.constants, *self.values, ""}, self.name):
            place = _place_of(node, self.name)
            try:
                self._node(node, place)
            except (UserError, OtherSampleError):
                raise
            except Exception as error:  # attributes of wrong kinds and lengths give many kinds of errors
                raise place.error(f"is malformed: {type(error).__name__}: {first_line(error)}") from error
        if outputs[0] not in self.values:
            raise UserError(f"{self.name}: its output {outputs[0]} does not depend on the sample")
        return Place("output", f"{self.name}: its output {outputs[0]}"), self.values[outputs[0]]

    def _sample(self, tensor: onnx.ValueInfoProto) -> Any:
        kind = tensor.type.tensor_type
        if kind.elem_type != 1:
            raise UserError(f"{self.name}: the input {tensor.name} is no tensor of float32")
        batch, *sizes = kind.shape.dim or [None]
        shape = tuple(size.dim_value for size in sizes if size is not None)
        if batch is None or not 1 <= len(shape) <= self.most_axes or min(shape) < 1:
            shown = " x ".join(side.dim_param or str(side.dim_value or "?") for side in sizes if side is not None)
            raise UserError(
                f"{self.name}: a sample of {tensor.name} is of {shown or 'no'} shape: give fixed sizes, (features), "
                "(channels, length) or (channels, height, width); only the batch may be open"
            )
        if reason := excess(shape):
            raise UserError(f"{self.name}: a sample of {tensor.name} {reason}")
        return self.sample(tensor.name, batch.dim_value, shape)

    def _node(self, node: onnx.NodeProto, place: Place) -> None:
        if node.domain not in STANDARD:
            raise place.error(f"is of the domain {node.domain}, not of ONNX itself")
        _check_node(node, self._model, self.opset, place)
        arguments = onnx_arguments(node, self.opset)
        if not any(name in self.values for name in node.input):
            self.constants.fold(node, arguments, place)
        elif node.op_type == "Shape":
            shape = np.array(self.sizes(self.values[node.input[0]]), np.int64)
            self.constants.set(node.output[0], shape[arguments.get("start") : arguments.get("end")])
        else:
            arguments = onnx_arguments(node, self.opset, lambda name: self.operand(name, place))
            outputs = self.operator(node, arguments, place)
            self.values |= {name: value for name, value in zip(node.output, outputs, strict=False) if name}

    def operand(self, name: str, place: Place) -> Any:
        """Input of a node."""
        if name in self.values:
            return self.values[name]
        if name not in self.constants:
            raise place.error(f"reads {name}, an output that no node here gives")
        return self.constant(name)


def _ordered(model: onnx.ModelProto, known: set[str], name: str) -> list[onnx.NodeProto]:
    """Nodes in topological order, as the standard demands; files in another order are accepted.

    `known` has the names of inputs and initializers, and gets the names of all outputs.

    Raises
    ------
    UserError
        If the graph has a cycle, or a node reads an unknown tensor.
    """
    waiting, ordered = list(model.graph.node), list["onnx.NodeProto"]()
    while waiting:
        later = []
        for node in waiting:
            if known.issuperset(node.input):
                if twice := known.intersection(node.output) - {""}:
                    raise _place_of(node, name).error(f"gives {min(twice)!r}, which is there already")
                known.update(node.output)
                ordered.append(node)
            else:
                later.append(node)
        if len(later) == len(waiting):
            missing = next(read for read in waiting[0].input if read not in known)
            raise _place_of(waiting[0], name).error(f"reads {missing!r}, which is missing, or there is a cycle")
        waiting = later
    return ordered


def _place_of(node: onnx.NodeProto, name: str) -> Place:
    title = node.name or next(iter(node.output), node.op_type)
    return Place(title, f"{name}: node {title!r} ({node.op_type})")


def _check_node(node: onnx.NodeProto, model: onnx.ModelProto, opset: int, place: Place) -> None:
    """Refuse a node with wrong attributes or a wrong number of inputs or outputs."""
    from onnx import checker

    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, {"": opset}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        raise place.error(f"is not as opset {opset} has it: {first_line(error)}") from error
