"""Transformer operations of an ONNX file, each node checked element by element or refused by name.

ONNX's reference implementation runs nodes of constants. It also runs nodes that only arrange elements, on the indices
of the elements. No code of the file is executed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from ...errors import UserError
from ...models.layers import Shape
from ...models.stages import MOST_PARAMETERS
from ...transformer.blocks import ActivationKind
from ..graph import Arguments, Constant, Place, constant_of, needed
from ..onnx_constants import ARRANGED, evaluated, size_of
from ..onnx_graph import FLOATS, OnnxGraph
from . import composed
from .arithmetic import KNOWN, OPERATIONS, Handler, Value, einsum, mean, output_of, rows_of, softmax_of
from .attention_scores import attention
from .composed import Composed
from .row_graph import BATCH, FoundTransformer, RowGraph, RowTensor
from .row_operations import activation, linear, norm, pooled
from .row_samples import convolution, joined

if TYPE_CHECKING:
    import onnx

_OF_BATCH = "compute with each sample alone, not with the size of the batch"


def transformer_of_file(model: onnx.ModelProto, name: str, opset: int) -> FoundTransformer:
    """Transformer of a file.

    Raises
    ------
    UserError
        If a node has no normal form, or the network depends on the size of the batch.
    """
    transformer, size = OnnxOperations(model, name, opset, BATCH).run(), BATCH + 1
    try:
        again = OnnxOperations(model, name, opset, size).run()
    except UserError as error:
        raise UserError(f"{error}: so it is with {size} samples, and not with {BATCH}: {_OF_BATCH}") from None
    (network, tensors), (other, others) = transformer.builder.finish(), again.builder.finish()
    for number, title in enumerate(network.titles):
        kinds = network.kinds[number]
        same = network.operations[number : number + 1] == other.operations[number : number + 1]
        if not same or not all(np.array_equal(tensors[number, kind], others[number, kind]) for kind in kinds):
            raise UserError(f"{name}: {title} is another one for {size} samples than for {BATCH}: {_OF_BATCH}")
    if network != other or not np.array_equal(transformer.places, again.places):
        raise UserError(f"{name}: it is another network for {size} samples than for {BATCH}: {_OF_BATCH}")
    return transformer


class OnnxOperations(OnnxGraph):
    """Traversal of a file's nodes.

    Parameters
    ----------
    name : str
        Name of the file for messages.
    opset : int
        Version of the operators.
    batch : int
        Number of samples in each tensor.
    """

    def __init__(self, model: onnx.ModelProto, name: str, opset: int, batch: int) -> None:
        super().__init__(model, name, opset)
        self._batch = batch

    def run(self) -> FoundTransformer:
        with torch.no_grad():
            rows, host = output_of(*self.walk())
            state = {name: self.constants.tensor(name) for name in self.constants.initializers}
            return self.graph.finish(rows, state, host)

    def sample(self, name: str, batch: int, shape: Shape) -> RowTensor:
        if batch:
            raise UserError(
                f"{self.name}: a batch of {name} has {batch} samples: export it with the batch as its only dynamic axis"
            )
        self.graph = RowGraph(self.name, shape, self._batch)
        return self.graph.sample()

    def sizes(self, value: Any) -> tuple[int, ...]:
        return tuple(value.index.shape)

    def constant(self, name: str) -> Constant:
        return Constant(self.constants.tensor(name), self.constants.origin(name))

    def operator(self, node: onnx.NodeProto, arguments: Arguments, place: Place) -> list[Value]:
        if node.op_type in ARRANGED:
            return self._arranged(node, arguments, place)
        handler = _HANDLERS.get(node.op_type)
        if handler is None:
            raise place.error(f"has no place in a transformer here, which has {KNOWN}")
        # before opset 13 a softmax is over this axis and all later axes
        if "Softmax" in node.op_type and self.opset < 13:
            count = len(self.sizes(arguments["input"]))
            if (axis := arguments["axis"] % count) != count - 1:
                raise place.error(f"is over the axes from {axis} on, all at once")
        output = handler(self.graph, place, arguments)
        arguments.check(place)
        return [output]

    def _arranged(self, node: onnx.NodeProto, arguments: Arguments, place: Place) -> list[Value]:
        """Views of values: the node is applied to the index of their elements."""
        read: list[Any] = [self.operand(name, place) if name else None for name in node.input]
        if node.op_type == "Concat":
            rows = [value for value in read if isinstance(value, RowTensor)]
            if len(rows) != len(read) or len({(value.number, value.factor) for value in rows}) != 1:
                return [joined(self.graph, place, read, arguments["axis"])]
            first = rows[0]
        else:
            first, *others = read
            if not all(value is None or isinstance(value, Constant) for value in others):
                raise place.error("takes a shape or places that depend on the samples")
            if isinstance(first, Constant) or (
                isinstance(first, Composed) and node.op_type not in ("Identity", "Expand")
            ):
                raise place.error("is a view of what is no output of an operation")
            if node.op_type == "Reshape" and (others[0].tensor < -1).any():
                raise place.error(f"has a shape of {others[0].tensor.tolist()}, in which only -1 is left open")
        arrays = [
            None if value is None else (value.tensor if isinstance(value, Constant) else value.index).numpy()
            for value in read
        ]
        if size_of(node.op_type, arrays, arguments) > MOST_PARAMETERS:
            raise place.error(f"gives more than the limit of {MOST_PARAMETERS} values")
        outputs = evaluated(node, self.opset, arrays)
        return [replace(first, index=torch.from_numpy(np.array(array))) for array in outputs]


def _flag(place: Place, arguments: Arguments, name: str) -> bool:
    """Attribute with value 0 or 1; tools read other values differently."""
    if (value := arguments.get(name, 0)) not in (0, 1):
        raise place.error(f"has {name} = {value}, not 0 or 1")
    return bool(value)


def _gemm(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    weight = needed(place, "weight", arguments["B"])
    if not _flag(place, arguments, "transB"):
        weight = replace(weight, tensor=weight.tensor.t())
    return linear(graph, place, rows_of(place, arguments["A"]), weight, constant_of(place, "bias", arguments["C"]))


def _convolution(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    rows, weight, bias = rows_of(place, arguments["X"]), needed(place, "weight", arguments["W"]), arguments["B"]
    if arguments["auto_pad"] not in (b"NOTSET", b"VALID"):
        raise place.error("is padded to the same size")
    count = rows.index.ndim - 2
    if list(arguments.get("kernel_shape", weight.tensor.shape[2:])) != list(weight.tensor.shape[2:]):
        raise place.error(
            f"has a kernel_shape of {arguments['kernel_shape']} and a weight of {tuple(weight.tensor.shape)}"
        )
    pads = arguments.integers(place, "pads") or [0] * 2 * count
    if pads[:count] != pads[count:] or count not in (1, 2) or (any(pads) and arguments["auto_pad"] == b"VALID"):
        raise place.error(f"has pads of {pads}, which differ before and behind")
    stride, dilation = (arguments.integers(place, name) or 1 for name in ("strides", "dilations"))
    added = constant_of(place, "bias", bias)
    return convolution(graph, place, rows, weight, added, stride, pads[:count], dilation)


def _normalisation(centred: bool) -> Handler:
    def handler(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
        values, *constants = arguments.first(3)
        rows, axis = rows_of(place, values), arguments["axis"]
        factor, bias = (
            constant_of(place, kind, value)
            for kind, value in zip(("factor", "bias"), [*constants, None][:2], strict=True)
        )
        axes = -axis if axis < 0 else rows.index.ndim - axis
        return norm(graph, place, rows, factor, bias, arguments["epsilon"], centred, axes)

    return handler


def _gelu(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    kinds: dict[bytes, ActivationKind] = {b"none": "gelu", b"tanh": "gelu-tanh"}
    return activation(graph, place, rows_of(place, arguments["X"]), kinds[arguments["approximate"]])


def _softmax(kind: Literal["softmax", "log_softmax"]) -> Handler:
    return lambda graph, place, arguments: softmax_of(place, arguments["input"], arguments["axis"], kind)


def _mean(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    dims = arguments.integers(place, "axes")
    if _flag(place, arguments, "noop_with_empty_axes") and not dims:
        return arguments["data"]  # type: ignore[no-any-return]
    return mean(graph, place, arguments["data"], dims, _flag(place, arguments, "keepdims"))


def _average(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    rows = rows_of(place, arguments["X"])
    return pooled(graph, place, rows, list(range(2, rows.index.ndim)), True)


def _length(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    return composed.length(
        place, rows_of(place, arguments["data"]), arguments.integers(place, "axes"), _flag(place, arguments, "keepdims")
    )


def _attention(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if arguments.get("softmax_precision", 1) not in FLOATS:
        raise place.error("has a softmax_precision of another type than float32 and float64")
    arguments.without_effect("qk_matmul_output_mode")
    queries, keys, values = (rows_of(place, value) for value in arguments.first(3))
    flat = queries.index.ndim == 3
    if flat:
        heads, key_heads = arguments.get("q_num_heads"), arguments.get("kv_num_heads")
        if not heads or not key_heads:
            raise place.error("has no numbers of heads")
        counts = (heads, key_heads, key_heads)
        queries, keys, values = (
            replace(rows, index=rows.index.reshape(*rows.index.shape[:2], count, -1).transpose(1, 2))
            for rows, count in zip((queries, keys, values), counts, strict=True)
        )
    count = queries.index.shape[1] // keys.index.shape[1]
    keys, values = (replace(rows, index=rows.index.repeat_interleave(count, 1)) for rows in (keys, values))
    mask, causal = constant_of(place, "mask", arguments["attn_mask"]), _flag(place, arguments, "is_causal")
    output = attention(graph, place, queries, keys, values, mask, causal, arguments.get("scale"))
    return replace(output, index=output.index.transpose(1, 2).flatten(2)) if flat else output


def _dropout(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    training = constant_of(place, "training_mode", arguments.get("training_mode"))
    if training is not None and bool(training.tensor):
        raise place.error("is active in evaluation mode")
    arguments.without_effect("ratio", "seed")
    return arguments["data"]  # type: ignore[no-any-return]


def _cast(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if arguments["to"] not in FLOATS:
        raise place.error("converts to another type than float32 and float64")
    arguments.without_effect("saturate", "round_mode")
    return arguments["input"]  # type: ignore[no-any-return]


def _at_least(place: Place, value: Any, bound: Any, *others: Any) -> Value:
    if isinstance(value, Constant):
        value, bound = bound, value
    least = composed.number_of(needed(place, "least value", bound))
    if not isinstance(value, Composed) or least is None or any(other is not None for other in others):
        raise place.error("clips values")
    return composed.at_least(place, value, least)


_HANDLERS: dict[str, Handler] = {
    "Einsum": lambda graph, place, arguments: einsum(graph, place, arguments["equation"].decode(), arguments["Inputs"]),
    "Gemm": _gemm,
    "Conv": _convolution,
    "LayerNormalization": _normalisation(True),
    "RMSNormalization": _normalisation(False),
    "Gelu": _gelu,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Attention": _attention,
    "ReduceMean": _mean,
    "ReduceL2": _length,
    "GlobalAveragePool": _average,
    "Clip": lambda graph, place, arguments: _at_least(place, *arguments.first(3)),
    "Max": lambda graph, place, arguments: _at_least(place, *arguments["data_0"]),
    "Dropout": _dropout,
    "Cast": _cast,
    **{kind: handler for kind, _, handler in OPERATIONS if kind},
}
