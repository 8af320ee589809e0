"""Graph of an ONNX file: a walk over its nodes, with the checks and names that every kind of network needs."""

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
    """Sign of a walk that has to begin anew, with another view of the sample."""


class OnnxGraph(ABC):
    """Walk over the nodes of a file; what its operators are, a subclass says.

    Parameters
    ----------
    model : onnx.ModelProto
    name : str
        Name of its file for messages.
    opset : int
        Version of the operators.

    Attributes
    ----------
    read_names : set of str
        Names of all tensors that a node reads, or that the file gives.
    constants : Constants
    values : dict of str to Any
        Tensors that depend on the sample, as the subclass has them.
    """

    most_axes = 64
    """Most axes of a sample."""

    def __init__(self, model: onnx.ModelProto, name: str, opset: int) -> None:
        self.opset, self.name = opset, name
        self.read_names = {read for node in model.graph.node for read in node.input}
        self.read_names |= {output.name for output in model.graph.output}
        self._model = model

    @abstractmethod
    def sample(self, name: str, batch: int, shape: tuple[int, ...]) -> Any:
        """Make the value of the sample, given its name, its batch, which is 0 if it is open, and its shape."""

    @abstractmethod
    def sizes(self, value: Any) -> tuple[int, ...]:
        """Shape of a tensor, the batch first."""

    @abstractmethod
    def constant(self, name: str) -> Any:
        """Constant of a name, as operators read it."""

    @abstractmethod
    def operator(self, node: onnx.NodeProto, given: Arguments, place: Place) -> list[Any]:
        """Import a node that reads a tensor which depends on the sample, and list its outputs."""

    def walk(self) -> tuple[Place, Any]:
        """Import all nodes, and return the output with its place for messages."""
        self.constants = Constants(self._model.graph, self.name, self.opset)
        self.values: dict[str, Any] = {}
        given = [one for one in self._model.graph.input if one.name not in self.constants]
        outputs = [one.name for one in self._model.graph.output]
        for what, names in (("takes {} inputs", [one.name for one in given]), ("gives {} outputs", outputs)):
            if len(names) != 1:
                raise UserError(f"{self.name} {what.format(len(names))} ({', '.join(names)}): a network here has one")
        self.values[given[0].name] = self._sample(given[0])
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

    def _sample(self, given: onnx.ValueInfoProto) -> Any:
        kind = given.type.tensor_type
        if kind.elem_type != 1:
            raise UserError(f"{self.name}: the input {given.name} is no tensor of float32")
        batch, *sizes = kind.shape.dim or [None]
        shape = tuple(size.dim_value for size in sizes if size is not None)
        if batch is None or not 1 <= len(shape) <= self.most_axes or min(shape) < 1:
            shown = " x ".join(one.dim_param or str(one.dim_value or "?") for one in sizes if one is not None)
            raise UserError(
                f"{self.name}: a sample of {given.name} is of {shown or 'no'} shape: give fixed sizes, (features), "
                "(channels, length) or (channels, height, width); only the batch may be open"
            )
        if reason := excess(shape):
            raise UserError(f"{self.name}: a sample of {given.name} {reason}")
        return self.sample(given.name, batch.dim_value, shape)

    def _node(self, node: onnx.NodeProto, place: Place) -> None:
        if node.domain not in STANDARD:
            raise place.error(f"is of the domain {node.domain}, not of ONNX itself")
        _check_node(node, self._model, self.opset, place)
        given = onnx_arguments(node, self.opset)
        if not any(name in self.values for name in node.input):
            self.constants.fold(node, given, place)
        elif node.op_type == "Shape":
            shape = np.array(self.sizes(self.values[node.input[0]]), np.int64)
            self.constants.set(node.output[0], shape[given.get("start") : given.get("end")])
        else:
            given = onnx_arguments(node, self.opset, lambda name: self.operand(name, place))
            found = self.operator(node, given, place)
            self.values |= {name: value for name, value in zip(node.output, found, strict=False) if name}

    def operand(self, name: str, place: Place) -> Any:
        """Tensor that a node reads."""
        if name in self.values:
            return self.values[name]
        if name not in self.constants:
            raise place.error(f"reads {name}, an output that no node here gives")
        return self.constant(name)


def _ordered(model: onnx.ModelProto, known: set[str], name: str) -> list[onnx.NodeProto]:
    """Nodes, each behind those that it reads: the standard wants them so, and a file in another order is read, too.

    Parameters
    ----------
    model : onnx.ModelProto
    known : set of str
        Names of inputs and initializers; those of all outputs are added.
    name : str
        Of the file for messages.

    Raises
    ------
    UserError
        If there is a cycle, or a node reads what nothing gives.
    """
    waiting, found = list(model.graph.node), list["onnx.NodeProto"]()
    while waiting:
        later = []
        for node in waiting:
            if known.issuperset(node.input):
                if twice := known.intersection(node.output) - {""}:
                    raise _place_of(node, name).error(f"gives {min(twice)!r}, which is there already")
                known.update(node.output)
                found.append(node)
            else:
                later.append(node)
        if len(later) == len(waiting):
            missing = next(one for one in waiting[0].input if one not in known)
            raise _place_of(waiting[0], name).error(f"reads {missing!r}, which is missing, or there is a cycle")
        waiting = later
    return found


def _place_of(node: onnx.NodeProto, name: str) -> Place:
    """Node of a file, for messages."""
    title = node.name or next(iter(node.output), node.op_type)
    return Place(title, f"{name}: node {title!r} ({node.op_type})")


def _check_node(node: onnx.NodeProto, model: onnx.ModelProto, opset: int, place: Place) -> None:
    """Refuse a node whose attributes, or whose numbers of inputs and outputs, are not those of its operator."""
    from onnx import checker

    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, {"": opset}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        raise place.error(f"is not as opset {opset} has it: {first_line(error)}") from error
