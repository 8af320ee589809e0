"""Constants of an ONNX graph: initializers, and what nodes compute from constants alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...models.stages import MOST_PARAMETERS
from .graph import Place

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Attributes = Mapping[str, Any]
"""Attributes of a node by name."""
BATCH = -(1 << 31) + 1
"""Stands for the open batch in what Shape gives, until a Reshape takes it: no size, no axis and no padding."""

_INTEGERS = (6, 7)
"""int32 and int64 among the types of ONNX: they hold any size."""
_CAST = [np.dtype(kind) for kind in (np.float32, np.float64, np.int32, np.int64)]


class Constants:
    """Constants by name.

    Parameters
    ----------
    graph : onnx.GraphProto
        Its initializers are the first ones.
    name : str
        Name of the file for messages.
    """

    def __init__(self, graph: onnx.GraphProto, name: str) -> None:
        from onnx import numpy_helper

        self._arrays: dict[str, Array] = {}
        self._origins: dict[str, str] = {}
        self._memory: dict[str, tuple[Array, ...]] = {}
        self._folded = 0
        for tensor in graph.initializer:
            try:
                self._arrays[tensor.name] = numpy_helper.to_array(tensor)
            except Exception as error:  # a wrong size or type gives any of several exceptions
                raise UserError(f"{name}: tensor {tensor.name} is damaged: {first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Any:
        return iter(self._arrays)

    def origin(self, name: str) -> str:
        """Name of the tensor from which a constant comes: itself, or what was copied, cast, reshaped or transposed."""
        return self._origins.get(name, name)

    def own_name(self, name: str) -> str | None:
        """Name of the tensor that a constant is, as it is; None where it was computed."""
        origin = self.origin(name)
        return origin if self._arrays.get(origin) is self._arrays[name] else None

    def memory(self, name: str) -> tuple[Array, ...]:
        """Parts of the file's tensors from which a constant comes: a view is one, a copy has its origin's."""
        return self._memory.get(name, (self._arrays[name],))

    def set(self, name: str, values: Array) -> None:
        """Add a constant."""
        self._arrays[name] = values

    def fold(self, node: onnx.NodeProto, given: Attributes, place: Place) -> None:
        """Compute a node of constants, such as exporters make for the shape of a Reshape.

        Raises
        ------
        UserError
            If it computes anything but another order, shape or type of them, or is too large.
        """
        inputs = list(node.input)
        while inputs and not inputs[-1]:
            inputs.pop()
        if "" in inputs:
            raise place.error("leaves out an input between others")
        arrays = [self._arrays[name] for name in inputs]
        integers = node.op_type != "Cast" or given["to"] in _INTEGERS
        kept = {"Concat": arrays, "ConstantOfShape": []}.get(node.op_type, arrays[:1] if integers else [])
        if any(_of_batch(one) for one in arrays if not any(one is own for own in kept)):
            raise place.error("computes with the size of the batch, which is open")
        # before anything of that size is there
        size = {"Gather": _gathered, "Concat": _joined, "Cast": _joined, "ConstantOfShape": _filled}.get(
            node.op_type, _none
        )(arrays, given)
        self._folded += size
        if self._folded > MOST_PARAMETERS:
            raise place.error(f"computes constants of more than the limit of {MOST_PARAMETERS} values")
        output = node.output[0]
        self._arrays[output] = made = _folded(node, arrays, given, place)
        parts = [part for one in inputs if self._arrays[one].dtype.kind == "f" for part in self.memory(one)]
        if parts and not any(one is part and np.may_share_memory(made, one) for one in arrays for part in parts):
            self._memory[output] = tuple(parts)
        if node.op_type in ("Identity", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze"):
            self._origins[output] = self.origin(node.input[0])


def _of_batch(array: Array) -> bool:
    return array.dtype.kind == "i" and bool((array == BATCH).any())


def _none(arrays: list[Array], given: Attributes) -> int:
    return 0


def _joined(arrays: list[Array], given: Attributes) -> int:
    return sum(one.size for one in arrays)


def _gathered(arrays: list[Array], given: Attributes) -> int:
    data, at = arrays
    axis = given.get("axis", 0) % data.ndim
    return prod(data.shape[:axis]) * at.size * prod(data.shape[axis + 1 :])


def _filled(arrays: list[Array], given: Attributes) -> int:
    return prod(arrays[0].tolist())


def _folded(node: onnx.NodeProto, arrays: list[Array], given: Attributes, place: Place) -> Array:
    from onnx import helper, numpy_helper

    axes = given.get("axes", arrays[1].reshape(-1).tolist() if len(arrays) > 1 else None)
    match node.op_type:
        case "Constant":
            return _constant(given, place)
        case "ConstantOfShape":
            value = numpy_helper.to_array(given["value"]) if "value" in given else np.zeros(1, np.float32)
            return np.full(arrays[0].tolist(), value.reshape(()), value.dtype)
        case "Identity":
            return arrays[0]
        case "Cast" if (kind := helper.tensor_dtype_to_np_dtype(given["to"])) in _CAST:
            with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused where it is used
                return arrays[0].astype(kind, copy=False)
        case "Transpose":
            return np.transpose(arrays[0], given.get("perm"))
        case "Gather":
            return np.asarray(np.take(arrays[0], arrays[1], given.get("axis", 0)))
        case "Unsqueeze":
            return np.expand_dims(arrays[0], tuple(axes or (0,)))
        case "Squeeze":
            return np.squeeze(arrays[0], None if axes is None else tuple(axes))
        case "Concat":
            return np.concatenate(arrays, given["axis"])
        case "Reshape":
            return arrays[0].reshape(_target(arrays[0], arrays[1].tolist(), given))
        case "Slice":
            return arrays[0][_slices(arrays, given)]
        case "Shape":
            return np.array(arrays[0].shape[given.get("start", 0) : given.get("end")], np.int64)
    raise place.error("computes with constants alone: let the exporter fold them")


def _constant(given: Attributes, place: Place) -> Array:
    from onnx import numpy_helper

    ((kind, value),) = given.items()
    match kind:
        case "value":
            return numpy_helper.to_array(value)
        case "value_float" | "value_floats":
            return np.array(value, np.float32)
        case "value_int" | "value_ints":
            return np.array(value, np.int64)
    raise place.error(f"gives a {kind}, not a dense tensor")


def _target(array: Array, target: list[int], given: Attributes) -> list[int]:
    """Shape that a Reshape gives a constant: 0 is the size that the axis has."""
    if given.get("allowzero", 0):
        return target
    return [array.shape[at] if size == 0 else size for at, size in enumerate(target)]


def _slices(arrays: list[Array], given: Attributes) -> tuple[slice, ...]:
    inputs = dict(zip(("starts", "ends", "axes", "steps"), (one.tolist() for one in arrays[1:]), strict=False))
    found = {**inputs, **{name: given[name] for name in ("starts", "ends", "axes") if name in given}}
    count = len(found["starts"])
    axes, steps = found.get("axes", range(count)), found.get("steps", [1] * count)
    whole = [slice(None)] * arrays[0].ndim
    for axis, first, last, step in zip(axes, found["starts"], found["ends"], steps, strict=True):
        # the end of a backward slice may lie before the first value, which NumPy writes as None
        whole[axis] = slice(first, None if step < 0 and last < -arrays[0].shape[axis] else last, step)
    return tuple(whole)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes of a node by name."""
    from onnx import helper

    return {one.name: helper.get_attribute_value(one) for one in node.attribute}


def first_line(error: Exception) -> str:
    """First line of an exception's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
