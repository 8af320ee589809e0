"""Graph of an ONNX file: its tensors, and a walk over its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import UserError
from ..layers import BatchNorm, Flatten, Layer, Shape, Sides
from ..module import NetworkModule
from ..network import Network
from .graph import SUPPORTED, GraphLayer, LayerGraph, Place

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Attributes = Mapping[str, Any]
"""Attributes of a node by name."""
UNPADDED: Sides = (0, 0, 0, 0)
_FLOAT = 1
"""float32 among the types of ONNX."""


class Value(NamedTuple):
    """Tensor that depends on the sample.

    Parameters
    ----------
    layer : int
        Layer that gives it, -1 for the sample.
    shape : tuple of int
        Shape of a sample's part of it.
    channels_last : bool
        A map of (height, width, channels): the input of a model of TensorFlow until its first transposition.
    padding : tuple of int
        Zeros around it, for the convolution that reads it.
    """

    layer: int
    shape: Shape
    channels_last: bool = False
    padding: Sides = UNPADDED


Handler = Callable[["OnnxGraph", Any, Attributes, Place], Value]
"""Function of the graph, a node, its attributes and its place."""


class OnnxGraph:
    """Walk over the nodes of a model.

    Parameters
    ----------
    model : onnx.ModelProto
    name : str
        Name of its file for messages.
    handlers : mapping
        By kind of node: the function that adds the layer.
    """

    def __init__(self, model: onnx.ModelProto, name: str, handlers: Mapping[str, Handler]) -> None:
        self._model, self._name, self._handlers = model, name, handlers
        self._constants: dict[str, Array] = {}
        self._values: dict[str, Value] = {}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for read in node.input:
                self._readers.setdefault(read, []).append(node)

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all nodes."""
        from onnx import numpy_helper

        for tensor in self._model.graph.initializer:
            try:
                self._constants[tensor.name] = numpy_helper.to_array(tensor)
            except Exception as error:  # a wrong size or type gives any of several exceptions
                raise UserError(f"{self._name}: tensor {tensor.name} is damaged: {first_line(error)}") from error
        self._graph = LayerGraph(self._name, self._input())
        for node in self._ordered():
            try:
                self._node(node)
            except UserError:
                raise
            except Exception as error:  # attributes of wrong kinds and lengths give many kinds of errors
                raise self._place(node).error(f"is malformed: {type(error).__name__}: {first_line(error)}") from error
        outputs = [one.name for one in self._model.graph.output]
        if len(outputs) != 1:
            raise UserError(f"{self._name} gives {len(outputs)} outputs ({', '.join(outputs)}): a network here has one")
        if outputs[0] not in self._values:
            raise UserError(f"{self._name}: its output {outputs[0]} does not depend on the sample")
        if self._values[outputs[0]].layer != len(self._graph.layers) - 1:
            raise UserError(f"{self._name} gives the outputs of a layer that is not the last one")
        return self._graph.finish()

    def _input(self) -> Shape:
        """Shape of a sample; the batch, of any size, comes first."""
        inputs = [one for one in self._model.graph.input if one.name not in self._constants]
        if len(inputs) != 1:
            names = ", ".join(one.name for one in inputs)
            raise UserError(f"{self._name} takes {len(inputs)} inputs ({names}): a network here has one")
        (given,) = inputs
        if given.type.tensor_type.elem_type != _FLOAT:
            raise UserError(f"{self._name}: the input {given.name} is no tensor of float32")
        batch, *sizes = given.type.tensor_type.shape.dim or [None]
        shape = tuple(size.dim_value for size in sizes if size is not None)
        if batch is None or len(shape) not in (1, 3) or min(shape) < 1:
            shown = " x ".join(one.dim_param or str(one.dim_value or "?") for one in sizes if one is not None)
            raise UserError(
                f"{self._name}: a sample of {given.name} is of {shown or 'no'} shape: give fixed sizes, (features) or "
                "(channels, height, width); only the batch may be open"
            )
        readers = self._readers.get(given.name, [])
        turns = [attributes(one).get("perm") == [0, 3, 1, 2] for one in readers if one.op_type == "Transpose"]
        last = bool(turns) and len(turns) == len(readers) and all(turns)
        self._values[given.name] = Value(-1, shape, channels_last=last)
        self._batch = batch.dim_value
        return (shape[2], shape[0], shape[1]) if last else shape

    def _ordered(self) -> list[onnx.NodeProto]:
        """Nodes, each behind those that it reads: the standard wants them so, and a file in another order is read, too.

        Raises
        ------
        UserError
            If there is a cycle, or a node reads what nothing gives.
        """
        known = {*self._constants, *self._values, ""}
        waiting, found = list(self._model.graph.node), []
        while waiting:
            later = []
            for node in waiting:
                if known.issuperset(node.input):
                    if twice := known.intersection(node.output) - {""}:
                        raise self._place(node).error(f"gives {min(twice)!r}, which is there already")
                    known.update(node.output)
                    found.append(node)
                else:
                    later.append(node)
            if len(later) == len(waiting):
                missing = next(name for name in waiting[0].input if name not in known)
                raise self._place(waiting[0]).error(f"reads {missing!r}, which is missing, or there is a cycle")
            waiting = later
        return found

    def _place(self, node: onnx.NodeProto) -> Place:
        title = node.name or next(iter(node.output), node.op_type)
        return Place(title, f"{self._name}: node {title!r} ({node.op_type})")

    def _node(self, node: onnx.NodeProto) -> None:
        place = self._place(node)
        if node.domain not in ("", "ai.onnx"):
            raise place.error(f"is of the domain {node.domain}, not of ONNX itself")
        if not any(name in self._values for name in node.input) and self._folded(node, place):
            return
        if node.op_type == "Shape" and node.input[0] in self._values:
            # 0 stands for the batch, as in the shape that a Reshape takes
            self._constants[node.output[0]] = np.array([0, *self._values[node.input[0]].shape])
            return
        handler = self._handlers.get(node.op_type)
        if handler is None:
            raise place.error(f"has no hardware; supported: {SUPPORTED}")
        self._values[node.output[0]] = handler(self, node, attributes(node), place)
        # the mask of a dropout, and statistics of a batch norm in training
        outputs = {one.name for one in self._model.graph.output}
        for other in node.output[1:]:
            if other in self._readers or other in outputs:
                raise place.error(f"gives {other!r} as well, which has no hardware")

    def _folded(self, node: onnx.NodeProto, place: Place) -> bool:
        """Compute a node of constants, such as exporters make for the shape of a Reshape."""
        from onnx import numpy_helper

        given = attributes(node)
        arrays = [self._constants[name] for name in node.input if name]
        axes = given.get("axes", arrays[1].reshape(-1).tolist() if len(arrays) > 1 else None)
        match node.op_type:
            case "Constant":
                value = given.get("value")
                found = (
                    numpy_helper.to_array(value)
                    if value is not None
                    else np.array(next(iter(given.values())), np.float32 if "value_float" in given else None)
                )
            case "Identity":
                found = arrays[0]
            case "Transpose":
                found = np.transpose(arrays[0], given.get("perm"))
            case "Gather":
                found = np.take(arrays[0], arrays[1], given.get("axis", 0))
            case "Unsqueeze":
                found = np.expand_dims(arrays[0], tuple(axes or (0,)))
            case "Squeeze":
                found = np.squeeze(arrays[0], None if axes is None else tuple(axes))
            case "Concat":
                found = np.concatenate(arrays, given["axis"])
            case "Reshape" if (arrays[1] > 0).all():
                found = arrays[0].reshape(arrays[1].tolist())
            case _:
                raise place.error("computes with constants alone: let the exporter fold them")
        self._constants[node.output[0]] = found
        return True

    # -- what nodes have in common -------------------------------------------------------------------------------------

    def value(self, node: onnx.NodeProto, at: int, place: Place) -> Value:
        """Input of a node that depends on the sample."""
        name = node.input[at] if at < len(node.input) else ""
        if name not in self._values:
            raise place.error(f"has {name!r} as input {at}, which is no output of a layer")
        value = self._values[name]
        if value.padding != UNPADDED and node.op_type != "Conv":
            raise place.error("reads what a Pad gives, which has hardware before a convolution only")
        return value

    def map(self, node: onnx.NodeProto, place: Place) -> tuple[Value, Shape]:
        """First input of a node, a map, and its shape."""
        value = self.value(node, 0, place)
        if len(value.shape) != 3:
            raise place.error(f"has an input of {value.shape}, not (channels, height, width)")
        return value, value.shape

    def constant(self, node: onnx.NodeProto, at: int, place: Place) -> Array | None:
        """Input of a node that does not depend on the sample; None where it is left out."""
        name = node.input[at] if at < len(node.input) else ""
        if not name:
            return None
        if name not in self._constants:
            raise place.error(f"has {name!r} as input {at}, which is computed and no constant")
        return self._constants[name]

    def weights(self, node: onnx.NodeProto, at: int, place: Place) -> Array | None:
        """Constant of a node in float32."""
        found = self.constant(node, at, place)
        if found is not None and found.dtype not in (np.float32, np.float64):
            raise place.error(f"has weights {node.input[at]!r} of {found.dtype}, not float32")
        return found

    def add(
        self,
        layer: Layer,
        sources: tuple[Value, ...],
        place: Place,
        shape: Shape,
        arrays: Mapping[str, Array | None] = {},
        names: Mapping[str, str] = {},
        eps: float = 0.0,
    ) -> Value:
        """Add a layer with its tensors."""
        tensors = {kind: torch.tensor(array) for kind, array in arrays.items() if array is not None}
        read = tuple(one.layer for one in sources)
        return Value(self._graph.add(GraphLayer(layer, read, place, tensors, dict(names), eps)), shape)

    def bias(self, node: onnx.NodeProto, place: Place) -> Value | None:
        """Sum of a constant and a layer that has no bias yet: the constant becomes one."""
        values = [name for name in node.input if name in self._values]
        if len(values) != 1 or len(self._readers[values[0]]) != 1:
            return None
        value = self._values[values[0]]
        constant = self.weights(node, 1 - list(node.input).index(values[0]), place)
        layer = self._graph.layers[value.layer] if value.layer >= 0 else None
        if layer is None or constant is None or "bias" in layer.tensors or "weight" not in layer.tensors:
            return None
        flat = constant.reshape(-1)
        wanted = (len(layer.tensors["weight"]), *[1] * (len(value.shape) - 1))
        if constant.size != wanted[0] or constant.shape[-len(wanted) :] != wanted or isinstance(layer.layer, BatchNorm):
            return None
        layer.tensors["bias"] = torch.tensor(flat)
        return value

    def reshaped(self, value: Value, target: list[int], place: Place) -> Value:
        """Value in another shape, batch first: the same, or flattened."""
        size = prod(value.shape)
        flat = len(target) == 2 and target[0] in (-1, 0, self._batch or -1) and target[1] in (-1, size)
        if (flat and target != [-1, -1]) or (len(value.shape) == 1 and target[1:] == list(value.shape)):
            return self.flattened(value, place)
        if target[1:] == list(value.shape):
            return value
        raise place.error(f"from {value.shape} to {target[1:]} does not flatten each sample")

    def flattened(self, value: Value, place: Place) -> Value:
        """Value as a vector."""
        return self.add(Flatten(), (value,), place, (prod(value.shape),))


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes of a node by name."""
    from onnx import helper

    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def first_line(error: Exception) -> str:
    """First line of an exception's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
