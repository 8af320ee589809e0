"""Import of an ONNX file as a transformer: nodes on rows of tokens, each checked element by element or refused by name.

Nodes that only arrange elements, and those of constants, are run by ONNX's own reference implementation: on the
numbers of the elements, or on the constants. Nothing of the file is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ...errors import UserError
from ...models.stages import MOST_PARAMETERS, excess
from ...transformer.blocks import ActivationKind
from ..layers.arguments import Arguments, onnx_arguments
from ..layers.graph import Place
from ..layers.onnx_constants import Array, first_line
from ..layers.onnx_file import onnx_model
from ..layers.onnx_graph import check_node, ordered, place_of
from . import composed
from .arithmetic import (
    Value,
    add,
    chosen,
    divide,
    einsum,
    function,
    mean,
    multiply,
    output_of,
    power,
    product,
    rows_of,
    softmax_of,
    subtract,
)
from .attention_scores import attention, not_a_number
from .composed import Composed
from .exported import KNOWN
from .functions import UNARY
from .row_graph import BATCH, Constant, FoundTransformer, RowGraph, Rows
from .row_operations import activation, linear, norm, pooled
from .row_samples import convolution, joined

if TYPE_CHECKING:
    import onnx

_SIGNS = frozenset(("Attention", "LayerNormalization", "RMSNormalization", "Gelu", "Erf"))
_ARRANGED = "Reshape Transpose Squeeze Unsqueeze Flatten Gather Slice Split Expand Identity Concat Tile"
_COMPUTED = (
    "Constant Cast ConstantOfShape Range Shape Size Add Sub Mul Div Mod Neg Sqrt Reciprocal Pow Abs Equal Greater Less "
    "And Or Not Where Trilu Floor Ceil Max Min ReduceProd"
)
_FLOATS = (1, 11)
"""float32 and float64 among the types of ONNX."""
_OF_BATCH = "compute with each sample alone, not with the size of the batch"
_ARRANGING = frozenset(_ARRANGED.split())
_OF_CONSTANTS = _ARRANGING | frozenset(_COMPUTED.split())


def onnx_transformer(path: Path) -> FoundTransformer | None:
    """Import a file.

    Returns
    -------
    FoundTransformer or None
        None if it has convolutions or batch norms of a network of layers, or nothing of a transformer.

    Raises
    ------
    UserError
        If the file is damaged, or a node has no place in the normal form.
    """
    model, opset = onnx_model(path)
    if not _is_transformer(model):
        return None
    with torch.no_grad():
        found = _Walk(model, str(path), opset).run()
        _check_batch_size(model, str(path), opset, found)
        return found


def _check_batch_size(model: onnx.ModelProto, name: str, opset: int, found: FoundTransformer) -> None:
    """Refuse a file that computes with the size of its batch: with another one, another network is found."""
    size = BATCH + 1
    try:
        again = _Walk(model, name, opset, size).run()
    except UserError as error:
        raise UserError(f"{error}: so it is with {size} samples, and not with {BATCH}: {_OF_BATCH}") from None
    (network, tensors), (other, others) = found.builder.finish(), again.builder.finish()
    for number, title in enumerate(network.titles):
        kinds = network.kinds[number]
        same = network.operations[number : number + 1] == other.operations[number : number + 1]
        if not same or not all(np.array_equal(tensors[number, kind], others[number, kind]) for kind in kinds):
            raise UserError(f"{name}: {title} is another one for {size} samples than for {BATCH}: {_OF_BATCH}")
    if network != other or not np.array_equal(found.places, again.places):
        raise UserError(f"{name}: it is another network for {size} samples than for {BATCH}: {_OF_BATCH}")


def _is_transformer(model: onnx.ModelProto) -> bool:
    kinds = [node.op_type for node in model.graph.node]
    outputs = {one.name for one in model.graph.output}
    inner = any(node.op_type == "Softmax" and node.output[0] not in outputs for node in model.graph.node)
    return kinds.count("Conv") < 2 and "BatchNormalization" not in kinds and (inner or not _SIGNS.isdisjoint(kinds))


class _Walk:
    """Walk over the nodes of a file."""

    def __init__(self, model: onnx.ModelProto, name: str, opset: int, batch: int = BATCH) -> None:
        from onnx import numpy_helper

        self._model, self._name, self.opset, self._batch = model, name, opset, batch
        self._values: dict[str, Value] = {}
        self._state: dict[str, torch.Tensor] = {}
        self._held = 0
        for tensor in model.graph.initializer:
            try:
                array = numpy_helper.to_array(tensor)
                self._state[tensor.name] = torch.from_numpy(array.copy())
            except Exception as error:  # a wrong size or type gives any of several exceptions
                raise UserError(f"{name}: tensor {tensor.name} is damaged: {first_line(error)}") from error
        self._values |= {own: Constant(one, own) for own, one in self._state.items()}

    def run(self) -> FoundTransformer:
        given = [one for one in self._model.graph.input if one.name not in self._values]
        outputs = [one.name for one in self._model.graph.output]
        for what, names in (("takes", [one.name for one in given]), ("gives", outputs)):
            if len(names) != 1:
                raise UserError(f"{self._name} {what} {len(names)} tensors ({', '.join(names)}): a model here has one")
        (sample,) = given
        batch, *sizes = sample.type.tensor_type.shape.dim
        shape = tuple(size.dim_value for size in sizes)
        if batch.dim_value or not shape or min(shape) < 1 or sample.type.tensor_type.elem_type != 1:
            raise UserError(
                f"{self._name}: {sample.name} is not of float32, an open batch and fixed sizes: export it with "
                "the batch as its only dynamic axis"
            )
        if reason := excess(shape):
            raise UserError(f"{self._name}: a sample of {sample.name} {reason}")
        self.graph = RowGraph(self._name, shape, self._batch)
        self._values[sample.name] = self.graph.sample()
        for node in ordered(self._model, {*self._values, ""}, self._name):
            place = place_of(node, self._name)
            try:
                self._node(node, place)
            except UserError:
                raise
            except Exception as error:  # attributes of wrong kinds and lengths give many kinds of errors
                raise place.error(f"is malformed: {type(error).__name__}: {first_line(error)}") from error
        place = Place("output", f"{self._name}: its output {outputs[0]}")
        rows, host = output_of(place, self._values.get(outputs[0]))
        return self.graph.finish(rows, self._state, host)

    def _node(self, node: onnx.NodeProto, place: Place) -> None:
        if node.domain not in ("", "ai.onnx"):
            raise place.error(f"is of the domain {node.domain}, not of ONNX itself")
        check_node(node, self._model, self.opset, place)
        if missing := [name for name in node.input if name and name not in self._values]:
            raise place.error(f"reads {missing[0]}, an output that no node here gives")
        read = [self._values[name] if name else None for name in node.input]
        given = onnx_arguments(node, self.opset)
        if node.op_type == "Shape" and read and not isinstance(read[0], Constant):
            shape = np.array(read[0].index.shape, np.int64)  # type: ignore[union-attr]
            found: Any = [Constant(torch.from_numpy(shape[given.get("start", 0) : given.get("end")].copy()))]
        elif all(one is None or isinstance(one, Constant) for one in read):
            found = self._computed(node, read, place)
        elif node.op_type in _ARRANGING:
            found = self._arranged(node, read, given, place)
        else:
            handler = _NODES.get(node.op_type)
            if handler is None:
                raise place.error(f"has no place in a transformer here, which has {KNOWN}")
            found = [handler(self, place, read, given)]
            given.check(place)
        self._values |= {name: one for name, one in zip(node.output, found, strict=False) if name}

    def _run(self, node: onnx.NodeProto, arrays: list[Array]) -> list[torch.Tensor]:
        """Run one node by ONNX's reference implementation."""
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(node, opsets={"": self.opset})
        named = {name: array for name, array in zip(node.input, arrays, strict=False) if name}
        return [torch.from_numpy(np.array(one)) for one in session.run(None, named)]

    def _computed(self, node: onnx.NodeProto, read: list[Any], place: Place) -> list[Constant]:
        """Compute a node of constants."""
        if node.op_type not in _OF_CONSTANTS:
            raise place.error("computes with constants alone: store the result")
        arrays = [np.empty(0) if one is None else one.tensor.numpy() for one in read]
        self._held += _size(node.op_type, arrays)
        if self._held > MOST_PARAMETERS:
            raise place.error(f"computes constants of more than the limit of {MOST_PARAMETERS} values")
        names = {one.name for one in read if one is not None and one.name}
        name = names.pop() if len(names) == 1 else ""
        return [Constant(one, name) for one in self._run(node, arrays)]

    def _arranged(self, node: onnx.NodeProto, read: list[Any], given: Arguments, place: Place) -> list[Value]:
        """Arrange the numbers of elements as the node arranges the elements."""
        if node.op_type == "Concat":
            rows = [one for one in read if isinstance(one, Rows)]
            if len(rows) != len(read) or len({(one.number, one.factor) for one in rows}) != 1:
                return [joined(self.graph, place, read, given["axis"])]
            first = rows[0]
        else:
            first, *others = read
            if not all(one is None or isinstance(one, Constant) for one in others):
                raise place.error("takes a shape or places that depend on the samples")
            if isinstance(first, Constant) or (
                isinstance(first, Composed) and node.op_type not in ("Identity", "Expand")
            ):
                raise place.error("is a view of what is no output of an operation")
            if node.op_type == "Reshape" and (others[0].tensor < -1).any():
                raise place.error(f"has a shape of {others[0].tensor.tolist()}, in which only -1 is left open")
        arrays = [
            np.empty(0) if one is None else one.tensor.numpy() if isinstance(one, Constant) else one.index.numpy()
            for one in read
        ]
        if _size(node.op_type, arrays) > MOST_PARAMETERS:
            raise place.error(f"gives more than the limit of {MOST_PARAMETERS} values")
        return [replace(first, index=one) for one in self._run(node, arrays)]


def _size(kind: str, arrays: list[Array]) -> int:
    """Most values that a node of constants or views gives, before it is run."""
    shapes = [one.shape for one in arrays if one.size]
    match kind:
        case "ConstantOfShape":
            return prod(map(int, arrays[0]))
        case "Expand":
            return prod(np.broadcast_shapes(arrays[0].shape, tuple(map(int, arrays[1]))))
        case "Tile":
            return arrays[0].size * prod(map(int, arrays[1]))
        case "Range":
            start, stop, step = (float(one) for one in arrays)
            return int(abs((stop - start) / step)) + 1 if step else 1
        case "Gather":
            return arrays[0].size * max(1, arrays[1].size)
        case "Concat" | "Split" | "Reshape" | "Constant":
            return sum(one.size for one in arrays)
        case _:
            return prod(np.broadcast_shapes(*shapes)) if _broadcasts(kind) else sum(one.size for one in arrays)


def _broadcasts(kind: str) -> bool:
    return kind in ("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Greater", "Less", "And", "Or", "Where")


Handler = Callable[[_Walk, Place, list[Any], Arguments], Value]


def _constant(place: Place, read: list[Any], at: int) -> Constant | None:
    found = read[at] if at < len(read) else None
    if found is not None and not isinstance(found, Constant):
        raise place.error(f"has an input {at} that is computed from the samples")
    return found


def _needed(place: Place, read: list[Any], at: int) -> Constant:
    found = _constant(place, read, at)
    if found is None:
        raise place.error(f"has no input {at}")
    return found


def _flag(place: Place, given: Arguments, name: str) -> bool:
    """Attribute that is 0 or 1; others are read differently by different tools."""
    if (value := given.get(name, 0)) not in (0, 1):
        raise place.error(f"has {name} = {value}, not 0 or 1")
    return bool(value)


def _gemm(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    weight = _needed(place, read, 1)
    if not _flag(place, given, "transB"):
        weight = replace(weight, tensor=weight.tensor.t())
    return linear(walk.graph, place, rows_of(place, read[0]), weight, _constant(place, read, 2))


def _convolution(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    rows, weight, bias = rows_of(place, read[0]), _needed(place, read, 1), _constant(place, read, 2)
    if given["auto_pad"] not in (b"NOTSET", b"VALID"):
        raise place.error("is padded to the same size")
    count = rows.index.ndim - 2
    if list(given.get("kernel_shape", weight.tensor.shape[2:])) != list(weight.tensor.shape[2:]):
        raise place.error(f"has a kernel_shape of {given['kernel_shape']} and a weight of {tuple(weight.tensor.shape)}")
    pads = list(given.get("pads", [0] * 2 * count))
    if pads[:count] != pads[count:] or count not in (1, 2) or (any(pads) and given["auto_pad"] == b"VALID"):
        raise place.error(f"has pads of {pads}, which differ before and behind")

    def pair(name: str, default: int) -> tuple[int, int]:
        sides = list(given.get(name, [default] * count))
        return (default, sides[0]) if count == 1 else (sides[0], sides[1])

    settings = {"stride": pair("strides", 1), "dilation": pair("dilations", 1)}
    padding = (0, pads[0]) if count == 1 else (pads[0], pads[1])
    if count == 1:
        rows = replace(rows, index=rows.index[:, :, None])
        weight = replace(weight, tensor=weight.tensor[:, :, None])
    found = convolution(walk.graph, place, rows, weight, bias, {**settings, "padding": padding})
    return replace(found, index=found.index[:, :, 0]) if count == 1 else found


def _normalisation(centred: bool) -> Handler:
    def handler(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
        rows, axis = rows_of(place, read[0]), given.get("axis", -1)
        factor, bias = _constant(place, read, 1), _constant(place, read, 2)
        axes = -axis if axis < 0 else rows.index.ndim - axis
        return norm(walk.graph, place, rows, factor, bias, given.get("epsilon", 1e-5), centred, axes)

    return handler


def _activation(kind: ActivationKind) -> Handler:
    return lambda walk, place, read, given: activation(walk.graph, place, rows_of(place, read[0]), kind)


def _gelu(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    kinds: dict[bytes, ActivationKind] = {b"none": "gelu", b"tanh": "gelu-tanh"}
    return activation(walk.graph, place, rows_of(place, read[0]), kinds[given["approximate"]])


def _function(name: str) -> Handler:
    return lambda walk, place, read, given: function(walk.graph, place, name, read[0])


def _softmax(kind: Literal["softmax", "log_softmax"]) -> Handler:
    def handler(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
        count = read[0].index.ndim
        axis = given["axis"] % count
        # before opset 13 it is over all axes from this one on
        if walk.opset < 13 and axis != count - 1:
            raise place.error(f"is over the axes from {axis} on, all at once")
        return softmax_of(place, read[0], axis, kind)

    return handler


def _reduced(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    axes = _constant(place, read, 1)
    dims = list(given.get("axes", [])) if axes is None else axes.tensor.reshape(-1).tolist()
    if _flag(place, given, "noop_with_empty_axes") and not dims:
        return read[0]  # type: ignore[no-any-return]
    return mean(walk.graph, place, read[0], dims, _flag(place, given, "keepdims"))


def _average(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    rows = rows_of(place, read[0])
    return pooled(walk.graph, place, rows, list(range(2, rows.index.ndim)), True)


def _length(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    axes = _constant(place, read, 1)
    dims = list(given.get("axes", [])) if axes is None else axes.tensor.reshape(-1).tolist()
    return composed.length(place, rows_of(place, read[0]), dims, _flag(place, given, "keepdims"))


def _power(exponent: float | None = None) -> Handler:
    return lambda walk, place, read, given: power(walk.graph, place, read[0], read[1] if exponent is None else exponent)


def _attention(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    if len(read) > 4 and any(one is not None for one in read[4:]):
        raise place.error("has earlier keys and values, or lengths")
    if given.get("softmax_precision", 1) not in _FLOATS:
        raise place.error("has a softmax_precision of another type than float32 and float64")
    given.without_effect("qk_matmul_output_mode")
    queries, keys, values = (rows_of(place, one) for one in read[:3])
    flat = queries.index.ndim == 3
    if flat:
        heads, key_heads = given.get("q_num_heads"), given.get("kv_num_heads")
        if not heads or not key_heads:
            raise place.error("has no numbers of heads")
        counts = (heads, key_heads, key_heads)
        queries, keys, values = (
            replace(one, index=one.index.reshape(*one.index.shape[:2], count, -1).transpose(1, 2))
            for one, count in zip((queries, keys, values), counts, strict=True)
        )
    count = queries.index.shape[1] // keys.index.shape[1]
    keys, values = (replace(one, index=one.index.repeat_interleave(count, 1)) for one in (keys, values))
    mask, causal = _constant(place, read, 3), _flag(place, given, "is_causal")
    found = attention(walk.graph, place, queries, keys, values, mask, causal, given.get("scale"))
    return replace(found, index=found.index.transpose(1, 2).flatten(2)) if flat else found


def _dropout(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    training = _constant(place, read, 2)
    if training is not None and bool(training.tensor):
        raise place.error("is active in evaluation mode")
    given.without_effect("ratio", "seed")
    return read[0]  # type: ignore[no-any-return]


def _cast(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    if given["to"] not in _FLOATS:
        raise place.error("converts to another type than float32 and float64")
    given.without_effect("saturate", "round_mode")
    return read[0]  # type: ignore[no-any-return]


def _at_least(walk: _Walk, place: Place, read: list[Any], given: Arguments) -> Value:
    if isinstance(read[0], Constant) and len(read) == 2:
        read = read[::-1]
    least = composed.number_of(_needed(place, read, 1))
    if not isinstance(read[0], Composed) or least is None or any(one is not None for one in read[2:]):
        raise place.error("clips values")
    return composed.at_least(place, read[0], least)


_NODES: dict[str, Handler] = {
    "Einsum": lambda walk, place, read, given: einsum(walk.graph, place, given["equation"].decode(), read),
    "MatMul": lambda walk, place, read, given: product(walk.graph, place, *read),
    "Gemm": _gemm,
    "Conv": _convolution,
    "LayerNormalization": _normalisation(True),
    "RMSNormalization": _normalisation(False),
    "Relu": _activation("relu"),
    "Gelu": _gelu,
    "Swish": _activation("silu"),
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Attention": _attention,
    "Add": lambda walk, place, read, given: add(walk.graph, place, *read),
    "Sub": lambda walk, place, read, given: subtract(walk.graph, place, *read),
    "Mul": lambda walk, place, read, given: multiply(walk.graph, place, *read),
    "Neg": lambda walk, place, read, given: multiply(walk.graph, place, read[0], -1.0),
    "Div": lambda walk, place, read, given: divide(walk.graph, place, *read),
    "Pow": _power(),
    "Sqrt": _power(0.5),
    "Reciprocal": _power(-1),
    "ReduceMean": _reduced,
    "ReduceL2": _length,
    "GlobalAveragePool": _average,
    "Where": lambda walk, place, read, given: chosen(place, *read),
    "IsNaN": lambda walk, place, read, given: not_a_number(place, read[0]),
    "Clip": _at_least,
    "Max": _at_least,
    "Dropout": _dropout,
    "Cast": _cast,
    **{name.capitalize(): _function(name) for name in UNARY},
}
