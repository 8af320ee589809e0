"""Graph of an ONNX file: a walk over its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...errors import UserError
from ...models.element_order import ElementOrder
from ...models.layers import BatchNorm, Flatten, Layer, Shape, Weighted
from ...models.module import NetworkModule
from ...models.network import Network
from ...models.stages import excess
from .axes import Axes, Value, in_order, inverse, joined, outer_first, reshaped, spatial, with_height
from .graph import SUPPORTED, GraphLayer, LayerGraph, Place
from .onnx_constants import BATCH, Array, Attributes, Constants, attributes, first_line

if TYPE_CHECKING:
    import onnx

FLOAT = 1
"""float32 among the types of ONNX."""


class _OtherSampleError(Exception):
    """The first layer reads the sample in another shape or order than the walk has assumed: this value of it."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


Handler = Callable[["OnnxGraph", Any, Attributes, Place], Value]
"""Function of the graph, a node, its attributes and its place."""


class OnnxGraph:
    """Walk over the nodes of a model.

    Parameters
    ----------
    model : onnx.ModelProto
    name : str
        Name of its file for messages.
    opset : int
        Version of the operators.
    handlers : mapping
        By kind of node: the function that adds the layer.

    Attributes
    ----------
    opset : int
    """

    def __init__(self, model: onnx.ModelProto, name: str, opset: int, handlers: Mapping[str, Handler]) -> None:
        self.opset = opset
        self._model, self._name, self._handlers = model, name, handlers
        self._sample: Value | None = None
        self._readers = {read for node in model.graph.node for read in node.input}
        self._outputs = [one.name for one in model.graph.output]

    def run(self) -> tuple[Network, NetworkModule]:
        """Import all nodes."""
        try:
            return self._walk()
        except _OtherSampleError as found:
            self._sample = found.value
        return self._walk()

    def _walk(self) -> tuple[Network, NetworkModule]:
        self._constants = Constants(self._model.graph, self._name)
        self._values: dict[str, Value] = {}
        self._weights: list[tuple[Array, Place]] = []
        self._flat: dict[int, int] = {}
        self._graph = LayerGraph(self._name, self._input())
        for node in self._ordered():
            try:
                self._node(node)
            except (UserError, _OtherSampleError):
                raise
            except Exception as error:  # attributes of wrong kinds and lengths give many kinds of errors
                raise self._place(node).error(f"is malformed: {type(error).__name__}: {first_line(error)}") from error
        self._check_output()
        return self._graph.finish()

    def _check_output(self) -> None:
        if len(self._outputs) != 1:
            names = ", ".join(self._outputs)
            raise UserError(f"{self._name} gives {len(self._outputs)} outputs ({names}): a network here has one")
        (name,) = self._outputs
        if name not in self._values:
            raise UserError(f"{self._name}: its output {name} does not depend on the sample")
        value = self._values[name]
        if value.layer != len(self._graph.layers) - 1 or value.padding is not None:
            raise UserError(f"{self._name} gives the outputs of a layer that is not the last one")
        if len(value.shape) == 1 and value.axes != in_order(value.shape):
            raise UserError(f"{self._name}: its output {name} is of {value.sizes}, not of (classes,)")
        self._graph.left_to_host = [value.host] if value.host else []

    def _input(self) -> Shape:
        """Shape of a sample; the batch, of any size, comes first."""
        inputs = [one for one in self._model.graph.input if one.name not in self._constants]
        if len(inputs) != 1:
            names = ", ".join(one.name for one in inputs)
            raise UserError(f"{self._name} takes {len(inputs)} inputs ({names}): a network here has one")
        (given,) = inputs
        if given.type.tensor_type.elem_type != FLOAT:
            raise UserError(f"{self._name}: the input {given.name} is no tensor of float32")
        batch, *sizes = given.type.tensor_type.shape.dim or [None]
        shape = tuple(size.dim_value for size in sizes if size is not None)
        if batch is None or not 1 <= len(shape) <= 3 or min(shape) < 1:
            shown = " x ".join(one.dim_param or str(one.dim_value or "?") for one in sizes if one is not None)
            raise UserError(
                f"{self._name}: a sample of {given.name} is of {shown or 'no'} shape: give fixed sizes, (features), "
                "(channels, length) or (channels, height, width); only the batch may be open"
            )
        if reason := excess(shape):
            raise UserError(f"{self._name}: a sample of {given.name} {reason}")
        self._batch, self._given = batch.dim_value, in_order(shape)
        value = Value(-1, with_height(shape), in_order(shape))
        if self._sample is not None:
            # the description has the axes that its first layer reads: in them, those of the file
            value = Value(-1, with_height(self._sample.sizes), inverse(self._sample.runs, shape))
        self._values[given.name] = value
        return value.shape

    def _ordered(self) -> list[onnx.NodeProto]:
        return ordered(self._model, {*self._constants, *self._values, ""}, self._name)

    def _place(self, node: onnx.NodeProto) -> Place:
        return place_of(node, self._name)

    def _node(self, node: onnx.NodeProto) -> None:
        place = self._place(node)
        if node.domain not in ("", "ai.onnx"):
            raise place.error(f"is of the domain {node.domain}, not of ONNX itself")
        if not any(name in self._values for name in node.input):
            self._check(node, place)
            self._constants.fold(node, attributes(node), place)
            return
        if node.op_type == "Shape":
            self._check(node, place)
            self._constants.set(node.output[0], self._shape(node, attributes(node), place))
            return
        handler = self._handlers.get(node.op_type)
        if handler is None:
            raise place.error(f"has no hardware; supported: {SUPPORTED}")
        self._check(node, place)
        self._values[node.output[0]] = handler(self, node, attributes(node), place)
        # the mask of a dropout, and statistics of a batch norm in training
        for other in node.output[1:]:
            if other in self._readers or other in self._outputs:
                raise place.error(f"gives {other!r} as well, which has no hardware")

    def _check(self, node: onnx.NodeProto, place: Place) -> None:
        check_node(node, self._model, self.opset, place)

    def _shape(self, node: onnx.NodeProto, given: Attributes, place: Place) -> Array:
        """Shape of a tensor; an open batch is `BATCH`."""
        value = self.read(node, 0, place)
        return np.array([self._batch or BATCH, *value.sizes], np.int64)[given.get("start", 0) : given.get("end")]

    # -- what a node reads: the views of a value that it takes ---------------------------------------------------------

    def read(self, node: onnx.NodeProto, at: int, place: Place, padded: bool = False, left: bool = False) -> Value:
        """Input of a node that depends on the sample, in any shape and order.

        With zeros around it, or with a softmax that is left to the host, only for a node that says so.
        """
        name = node.input[at] if at < len(node.input) else ""
        if name not in self._values:
            raise place.error(f"has {name!r} as input {at}, which is no output of a layer")
        value = self._values[name]
        if value.padding is not None and not padded:
            raise place.error("reads what a Pad gives, which has hardware before a convolution only")
        if value.host and not left:
            raise place.error(
                f"reads what a {value.host} gives, which has no hardware: it is left to the host as the last node only"
            )
        return value

    def map(
        self, node: onnx.NodeProto, place: Place, padded: bool = False, column: bool = False
    ) -> tuple[Value, tuple[int, ...]]:
        """First input of a node as a map, and which of its layer's height and width it has, see `axes.spatial`.

        A map of one row may be seen as a column only by a node that says so.
        """
        value = self.read(node, 0, place, padded)
        if len(value.sizes) not in (2, 3):
            raise place.error(f"has an input of {value.sizes}, not (channels, height, width) or (channels, length)")
        if found := spatial(value.axes, value.shape):
            return value, found
        one_row = len(value.shape) == 3 and value.shape[1] == 1
        if column and one_row and value.axes == in_order((value.shape[0], value.shape[2], 1)):
            return value, (2, 1)
        # channels that are the last axis of the file's samples, or axes that are split otherwise
        last, others = self._given[-1], self._given[:-1]
        turned = value.axes[0] == last and joined(value.runs) == joined(run for axis in (last, *others) for run in axis)
        if value.layer < 0 and self._sample is None and (value.in_order or turned):
            raise _OtherSampleError(value)
        raise place.error(
            f"reads {value.sizes}, which a Reshape or a Transpose made of {value.shape}: as a map it has hardware in "
            "(channels, height, width) only"
        )

    def vector(self, node: onnx.NodeProto, at: int, place: Place) -> Value:
        """Input of a node as a vector, flattened if need be; its features may be in another order than the layer's."""
        value = self.read(node, at, place)
        if len(value.sizes) != 1:
            raise place.error(f"has an input of {value.sizes}: flatten it first")
        return self.flattened(value, place)

    def flattened(self, value: Value, place: Place) -> Value:
        """Tensor of the same axes, of a layer that gives a vector."""
        if len(value.shape) == 1:
            return value
        if value.layer not in self._flat:
            self._flat[value.layer] = self._graph.add(GraphLayer(Flatten(), (value.layer,), place))
        return value._replace(layer=self._flat[value.layer], shape=(prod(value.shape),))

    def is_value(self, name: str) -> bool:
        """Whether a tensor depends on the sample."""
        return name in self._values

    def constant(self, node: onnx.NodeProto, at: int, place: Place) -> Array | None:
        """Input of a node that does not depend on the sample; None where it is left out."""
        name = node.input[at] if at < len(node.input) else ""
        if not name:
            return None
        if name not in self._constants:
            raise place.error(f"has {name!r} as input {at}, which is computed and no constant")
        return self._constants[name]

    def floats(self, node: onnx.NodeProto, at: int, place: Place) -> Array | None:
        """Constant of a node in float32."""
        found = self.constant(node, at, place)
        if found is not None and found.dtype not in (np.float32, np.float64):
            raise place.error(f"has weights {node.input[at]!r} of {found.dtype}, not float32")
        return found

    def weight(self, node: onnx.NodeProto, place: Place, at: int = 1) -> Array | None:
        """Input of a node that is its weight, in float32, no value of which may come from another node's."""
        found = self.floats(node, at, place)
        if found is None:
            return None
        name = node.input[at]
        for part in self._constants.memory(name):
            for other, first in self._weights:
                if first is not place and np.shares_memory(part, other):
                    origin = self._constants.origin(name)
                    raise place.error(f"{origin} is shared with {first.where}: each layer needs weights of its own")
            self._weights.append((part, place))
        return found

    def own_name(self, node: onnx.NodeProto, at: int = 1) -> str | None:
        """Name in the file of a node's weight; None where it was computed."""
        return self._constants.own_name(node.input[at])

    # -- layers --------------------------------------------------------------------------------------------------------

    def each(self, layer: Layer, value: Value, place: Place) -> Value:
        """Add a layer that gives one element for each."""
        return value._replace(layer=self._graph.add(GraphLayer(layer, (value.layer,), place)))

    def add(
        self,
        layer: Layer,
        sources: tuple[Value, ...],
        place: Place,
        shape: Shape,
        axes: Axes,
        arrays: Mapping[str, Array | None] = {},
        name: str | None = None,
        order: ElementOrder | None = None,
        eps: float = 0.0,
    ) -> Value:
        """Add a layer with its tensors.

        Parameters
        ----------
        layer : Layer
        sources : tuple of Value
        place : Place
        shape : tuple of int
            Shape of its outputs.
        axes : tuple
            Axes of these in the file.
        arrays : mapping of str to array or None
            As in the file.
        name : str, optional
            Name in the file of the weight.
        order : ElementOrder, optional
            Way from the file's weight to the layer's.
        eps : float
            Of a batch norm.
        """
        if reason := excess(shape):
            raise place.error(f"gives outputs, of which each {reason}")
        # in their usual order: PyTorch has no backward views
        copies = {kind: np.array(array, order="C") for kind, array in arrays.items() if array is not None}
        tensors = {kind: torch.from_numpy(array) for kind, array in copies.items()}
        names = {} if name is None else {"weight": name}
        read = tuple(one.layer for one in sources)
        return Value(self._graph.add(GraphLayer(layer, read, place, tensors, names, eps, order=order)), shape, axes)

    def maps(
        self, layer: Layer, source: Value, place: Place, shape: Shape, axes: tuple[int, ...], **settings: Any
    ) -> Value:
        """Add a layer of maps that have these of height and width, as `map` gave them; the rest as of `add`."""
        own = in_order((shape[0], *(shape[axis] for axis in axes)))
        return self.add(layer, (source,), place, shape, own, **settings)

    def biased(self, value: Value, constant: Array, place: Place) -> Value:
        """Sum of a layer's outputs and a constant: the layer with the constant in its bias, and the one without.

        The one without stays for whatever else reads it, see `LayerGraph.add`.
        """
        bias = per_channel(value, constant)
        if bias is None:
            raise place.error(
                f"adds a constant of {constant.shape} to {value.sizes}: only one value for each channel has hardware"
            )
        before = self._graph.layers[value.layer] if value.layer >= 0 else None
        if before is None or not isinstance(before.layer, Weighted | BatchNorm):
            raise place.error("adds a constant to what no layer with weights gives, which has no hardware")
        given = before.tensors.get("bias")
        tensors = {**before.tensors, "bias": torch.tensor(bias) if given is None else given + torch.tensor(bias)}
        where = replace(place, title=before.place.title)
        return value._replace(layer=self._graph.add(replace(before, tensors=tensors, place=where), value.layer))

    def reshaped(self, value: Value, target: list[int], place: Place, zero_is_size: bool = False) -> Value:
        """Value in another shape, batch first."""
        wanted = " x ".join("batch" if one == BATCH else str(one) for one in target)
        refusal = place.error(f"from {value.sizes} to {wanted} does not keep each sample for itself")
        batch, *sizes = target or [1]
        if not zero_is_size:
            batch = BATCH if batch == 0 else batch
            if any(one == 0 and at >= len(value.sizes) for at, one in enumerate(sizes)):
                raise refusal
            sizes = [value.sizes[at] if one == 0 else one for at, one in enumerate(sizes)]
        if sizes.count(-1) > 1 or (-1 in sizes and batch == -1) or any(one < 1 and one != -1 for one in sizes):
            raise refusal
        known = prod(one for one in sizes if one != -1)
        if batch not in (-1, BATCH, self._batch or BATCH) or prod(value.sizes) % known:
            raise refusal
        shape = tuple(prod(value.sizes) // known if one == -1 else one for one in sizes)
        axes = reshaped(value.axes, shape)
        if prod(shape) != prod(value.sizes) or axes is None:
            raise refusal
        return value._replace(axes=axes)


def per_channel(value: Value, constant: Array) -> Array | None:
    """Constant that is added to a value, as one number for each channel of its layer; None if it is none."""
    sizes = (1,) * (1 + len(value.sizes) - constant.ndim) + constant.shape
    if constant.ndim > 1 + len(value.sizes) or any(
        size not in (1, own) for size, own in zip(sizes, (1, *value.sizes), strict=True)
    ):
        return None
    spread = np.broadcast_to(constant.reshape(sizes)[0], value.sizes).reshape([size for size, _ in value.runs])
    rows = spread.transpose(outer_first(value.runs)).reshape(value.shape[0], -1)
    return rows[:, 0].astype(np.float32) if (rows == rows[:, :1]).all() else None


def ordered(model: onnx.ModelProto, known: set[str], name: str) -> list[onnx.NodeProto]:
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
                    raise place_of(node, name).error(f"gives {min(twice)!r}, which is there already")
                known.update(node.output)
                found.append(node)
            else:
                later.append(node)
        if len(later) == len(waiting):
            missing = next(one for one in waiting[0].input if one not in known)
            raise place_of(waiting[0], name).error(f"reads {missing!r}, which is missing, or there is a cycle")
        waiting = later
    return found


def place_of(node: onnx.NodeProto, name: str) -> Place:
    """Node of a file, for messages."""
    title = node.name or next(iter(node.output), node.op_type)
    return Place(title, f"{name}: node {title!r} ({node.op_type})")


def check_node(node: onnx.NodeProto, model: onnx.ModelProto, opset: int, place: Place) -> None:
    """Refuse a node whose attributes, or whose numbers of inputs and outputs, are not those of its operator."""
    from onnx import checker

    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = model.ir_version, {"": opset}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        raise place.error(f"is not as opset {opset} has it: {first_line(error)}") from error
