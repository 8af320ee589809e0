"""Constants of an ONNX graph: initializers, and results of nodes of constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import UserError
from ..models.stages import MOST_PARAMETERS
from .graph import Arguments, Place, first_line

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
BATCH = -(1 << 31) + 1
"""Marks the open batch in outputs of Shape, until a Reshape reads it; no valid size, axis or padding."""

_ARRANGED = "Reshape Transpose Squeeze Unsqueeze Flatten Gather Slice Split Expand Identity Concat Tile"
_COMPUTED = (
    "Constant Cast ConstantOfShape Range Shape Size Add Sub Mul Div Mod Neg Sqrt Reciprocal Pow Abs Equal Greater Less "
    "And Or Not Where Trilu Floor Ceil Max Min ReduceProd"
)
ARRANGED = frozenset(_ARRANGED.split())
"""Nodes that only reorder or reshape their inputs."""
_BROADCAST = ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Greater", "Less", "And", "Or", "Where")
_COPIES = ("Identity", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
"""Nodes that return all values of the first input."""
_INTEGERS = (6, 7)
"""int32 and int64 among ONNX's types: they hold any size."""


class Constants:
    """Constants by name.

    Parameters
    ----------
    graph : onnx.GraphProto
        Provides the initializers.
    name : str
        Name of the file for messages.
    opset : int
        Version of the operators.
    """

    def __init__(self, graph: onnx.GraphProto, name: str, opset: int) -> None:
        from onnx import numpy_helper

        self._name, self._opset = name, opset
        self._arrays: dict[str, Array] = {}
        self._origins: dict[str, str] = {}
        self._memory: dict[str, tuple[Array, ...]] = {}
        self._folded, self._open = 0, False
        for tensor in graph.initializer:
            try:
                self._arrays[tensor.name] = numpy_helper.to_array(tensor)
            except Exception as error:  # a wrong size or type gives any of several exceptions
                raise UserError(f"{name}: tensor {tensor.name} is damaged: {first_line(error)}") from error
        self.initializers = tuple(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Any:
        return iter(self._arrays)

    def tensor(self, name: str) -> Tensor:
        """Copy of a constant in row-major order: PyTorch has no negative strides."""
        array = self._arrays[name]
        try:
            return torch.from_numpy(np.array(array, order="C"))
        except TypeError:
            raise UserError(f"{self._name}: tensor {name} is of {array.dtype}, which is not read") from None

    def origin(self, name: str) -> str:
        """Name of the source tensor of a copied, cast, reshaped or transposed constant; else the constant's name."""
        return self._origins.get(name, name)

    def own_name(self, name: str) -> str:
        """Name of an unchanged tensor; empty for a computed constant."""
        origin = self.origin(name)
        return origin if self._arrays.get(origin) is self._arrays[name] else ""

    def memory(self, name: str) -> tuple[Array, ...]:
        """Source arrays of a constant in the file: the array for a view, the sources' arrays for a copy."""
        return self._memory.get(name, (self._arrays[name],))

    def set(self, name: str, values: Array) -> None:
        self._open = self._open or bool((values == BATCH).any())
        self._arrays[name] = values

    def fold(self, node: onnx.NodeProto, arguments: Arguments, place: Place) -> None:
        """Compute a node of constants, as exporters write for the shape of a Reshape.

        Raises
        ------
        UserError
            If the node computes with the size of an open batch, is unknown, or gives too many values.
        """
        kind = node.op_type
        if kind not in ARRANGED and kind not in _COMPUTED.split():
            raise place.error("computes with constants alone: store the result")
        inputs = [name for name in node.input if name]
        arrays = [self._arrays[name] for name in inputs]
        passed = arrays if kind == "Concat" else arrays[:1]
        if kind not in ARRANGED and not (kind == "Cast" and arguments["to"] in _INTEGERS):
            passed = []
        others = [array for array in arrays if not any(array is source for source in passed)]
        if self._open and any(array.dtype.kind == "i" and (array == BATCH).any() for array in others):
            raise place.error("computes with the size of the batch, which is open")
        # checked before memory is allocated
        self._folded += size_of(kind, [self._arrays[name] if name else None for name in node.input], arguments)
        if self._folded > MOST_PARAMETERS:
            raise place.error(f"computes constants of more than the limit of {MOST_PARAMETERS} values")
        outputs = evaluated(node, self._opset, [self._arrays[name] if name else None for name in node.input])
        if kind == "Identity" or (kind == "Cast" and outputs[0].dtype == arrays[0].dtype):
            outputs = arrays[:1]
        parts = [part for name in inputs if self._arrays[name].dtype.kind == "f" for part in self.memory(name)]
        for output, array in zip(node.output, outputs, strict=False):
            self._arrays[output] = array
            if parts and not any(
                array_read is part and np.may_share_memory(array, array_read) for array_read in arrays for part in parts
            ):
                self._memory[output] = tuple(parts)
            if kind in _COPIES:
                self._origins[output] = self.origin(node.input[0])


def evaluated(node: onnx.NodeProto, opset: int, arrays: Sequence[Array | None]) -> list[Array]:
    """Outputs of one node by ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    axes = next((tuple(attribute.ints) for attribute in node.attribute if attribute.name == "axes"), None)
    if axes and arrays[0] is not None and node.op_type in ("Squeeze", "Unsqueeze"):  # it knows only later versions
        return [(np.squeeze if node.op_type == "Squeeze" else np.expand_dims)(arrays[0], axes)]
    session = ReferenceEvaluator(node, opsets={"": opset})
    named = {name: array for name, array in zip(node.input, arrays, strict=False) if name}
    with np.errstate(all="ignore"):  # values that are not finite are refused at their use
        return [np.asarray(array) for array in session.run(None, named)]


def size_of(kind: str, arrays: Sequence[Array | None], arguments: Arguments) -> int:
    """Upper limit of values computed by a node of constants, before it runs; 0 for a view."""
    present = [array for array in arrays if array is not None]
    match kind:
        case "ConstantOfShape":
            return prod(map(int, present[0]))
        case "Expand":
            return prod(np.broadcast_shapes(present[0].shape, tuple(map(int, present[1]))))
        case "Tile":
            return present[0].size * prod(map(int, present[1]))
        case "Range":
            start, stop, step = map(float, present)
            return int(abs((stop - start) / step)) + 1 if step else 1
        case "Gather":
            data, indices = present
            axis = arguments["axis"] % data.ndim
            return prod(data.shape[:axis]) * indices.size * prod(data.shape[axis + 1 :])
        case _ if kind in _BROADCAST:
            return prod(np.broadcast_shapes(*(array.shape for array in present)))
        case _ if kind in ARRANGED and kind != "Concat":
            return 0
    return sum(array.size for array in present)
