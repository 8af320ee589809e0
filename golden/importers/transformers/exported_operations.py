"""Transformer operations of an exported program, each checked element by element or refused at its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from ...models.layers import Shape
from ...transformer.blocks import ActivationKind
from ..exported_graph import ExportedGraph, shape_of
from ..graph import Arguments, Constant, Place, constant_of, needed
from . import composed
from .arithmetic import (
    KNOWN,
    OPERATIONS,
    Handler,
    Value,
    add,
    chosen,
    einsum,
    mean,
    multiply,
    output_of,
    product,
    rows_of,
    softmax_of,
)
from .attention_scores import Scores, attention
from .composed import Composed, Function
from .row_graph import FoundTransformer, RowGraph, RowTensor
from .row_operations import activation, linear, norm, pooled
from .row_samples import convolution, joined


class ExportedOperations(ExportedGraph):
    """Traversal of a program's operators.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of a sample: an image, or rows of (tokens, features).
    name : str
        Origin of the module for messages: ``model.py:build``.
    """

    def __init__(self, program: ExportedProgram, input_shape: Shape, name: str) -> None:
        super().__init__(program, name)
        self.graph = RowGraph(name, input_shape)

    def run(self) -> FoundTransformer:
        """Import all operators.

        Raises
        ------
        UserError
            If an operator has no normal form; the error names its line.
        """
        with torch.no_grad():
            rows, host = output_of(*self.walk())
            return self.graph.finish(rows, self.program.state_dict, host)

    def sample(self, node: Node) -> RowTensor:
        return self.graph.sample()

    def constant(self, node: Node, name: str, tensor: Tensor) -> Constant:
        return Constant(tensor.detach().cpu(), name)

    def operator(self, node: Node, title: str, place: Place) -> Value:
        if all(_is_constant(self.values[source]) for source in node.all_input_nodes):
            return self._computed(node, place)
        if title in _VIEWS:
            return self._view(node, title, place)
        handler = _HANDLERS.get(title)
        if handler is None:
            raise place.error(f"has no place in a transformer here, which has {KNOWN}")
        arguments = self.given(node)
        if (kind := arguments.get("dtype")) not in (None, torch.float32, torch.float64):
            raise place.error(f"computes in {kind}")
        output = handler(self.graph, place, arguments)
        arguments.check(place)
        if isinstance(output, RowTensor | Scores | Composed | Function) and output.index.shape != shape_of(node):
            raise place.error(f"gives {shape_of(node)}, which is followed as {tuple(output.index.shape)}")
        return output

    def _computed(self, node: Node, place: Place) -> Value:
        """Result of an operator on constants alone, or without inputs."""

        def tensor(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [tensor(each) for each in value]
            return value.tensor if isinstance(value, Constant) else value

        operator: Any = node.target
        if torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
            raise place.error("draws random numbers")
        settings = {name: tensor(self.argument(argument)) for name, argument in node.kwargs.items()}
        result = operator(*tensor(self.argument(node.args)), **settings)
        names = {read.name for read in map(self.values.get, node.all_input_nodes) if isinstance(read, Constant)}
        name = names.pop() if len(names) == 1 else ""
        if isinstance(result, tuple | list):
            return tuple(Constant(output, name) for output in result)
        return Constant(torch.as_tensor(result), name)

    def _view(self, node: Node, title: str, place: Place) -> Value:
        """View of a value: the operator is applied to the index of the elements."""
        operator: Any = node.target
        operand, *rest = self.argument(node.args)
        if isinstance(operand, list):
            return self._joined(operand, place, rest[0] if rest else node.kwargs.get("dim", 0))
        title, shape = title.split(".")[1], shape_of(node)
        if isinstance(operand, Constant):
            # other views of constants have no second operand and are computed
            assert title == "expand_as", "is of constants alone"
            return replace(operand, tensor=operand.tensor.expand(shape))
        value: RowTensor | Scores | Composed | Function = operand
        if title in ("to", "_to_copy"):
            if (kind := node.meta["val"].dtype) not in (torch.float32, torch.float64):
                raise place.error(f"converts to {kind}")
            return value
        if isinstance(value, Composed) and title not in ("clone", "detach", "alias", "expand", "contiguous"):
            raise place.error(f"is a view of a {value.kind}")
        if title in ("view", "_unsafe_view", "reshape"):
            return replace(value, index=value.index.reshape(shape))
        if title == "expand_as":
            return replace(value, index=value.index.expand(shape))
        index = operator(value.index, *rest, **node.kwargs)
        if isinstance(index, tuple | list):
            return tuple(replace(value, index=part) for part in index)
        return replace(value, index=index)

    def _joined(self, pieces: Sequence[Value], place: Place, dim: Any) -> RowTensor:
        """Concatenation of parts of an operation's outputs, or of constant tokens and outputs."""
        known = [piece for piece in pieces if isinstance(piece, RowTensor | Constant)]
        rows = [piece for piece in known if isinstance(piece, RowTensor)]
        if len(known) != len(pieces):
            raise place.error("joins what is no output of an operation")
        if len(rows) == len(known) and len({(piece.number, piece.factor) for piece in rows}) == 1:
            return replace(rows[0], index=torch.cat([piece.index for piece in rows], dim))
        return joined(self.graph, place, known, dim)


def _is_constant(value: Value) -> bool:
    return all(map(_is_constant, value)) if isinstance(value, tuple) else isinstance(value, Constant)


def _linear(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    weight, bias = needed(place, "weight", arguments["weight"]), constant_of(place, "bias", arguments["bias"])
    return linear(graph, place, rows_of(place, arguments["input"]), weight, bias)


def _addmm(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    added, first, second = arguments.first(3)
    return add(graph, place, product(graph, place, first, second), added)


def _convolution(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    rows, weight = rows_of(place, arguments["input"]), needed(place, "weight", arguments["weight"])
    bias = constant_of(place, "bias", arguments["bias"])
    arguments.without_effect("output_padding")
    if arguments["groups"] != 1 or arguments.get("transposed") or arguments["padding"] == "same":
        raise place.error("is in groups, transposed, or padded to the same size")
    padding = 0 if arguments["padding"] == "valid" else arguments["padding"]
    return convolution(graph, place, rows, weight, bias, arguments["stride"], padding, arguments["dilation"])


def _layer_norm(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    factor, bias = (constant_of(place, kind, arguments[kind]) for kind in ("weight", "bias"))
    axes = len(arguments["normalized_shape"])
    return norm(graph, place, rows_of(place, arguments["input"]), factor, bias, arguments["eps"], axes=axes)


def _rms_norm(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    eps = torch.finfo(torch.float32).eps if arguments["eps"] is None else arguments["eps"]
    rows, factor = rows_of(place, arguments["input"]), constant_of(place, "weight", arguments["weight"])
    return norm(graph, place, rows, factor, None, eps, False, len(arguments["normalized_shape"]))


def _gelu(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    kind: ActivationKind = "gelu" if arguments["approximate"] == "none" else "gelu-tanh"
    return activation(graph, place, rows_of(place, arguments["self"]), kind)


def _softmax(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    arguments.without_effect("half_to_float")
    return softmax_of(
        place, arguments["self"], arguments["dim"], "log_softmax" if "log" in place.operator else "softmax"
    )


def _attention(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    queries, keys, values = (rows_of(place, value) for value in arguments.first(3))
    mask = constant_of(place, "mask", arguments["attn_mask"])
    if arguments["dropout_p"]:
        raise place.error(f"drops {arguments['dropout_p']:g} of the weights in evaluation mode")
    if arguments.get("enable_gqa"):
        count = queries.index.shape[-3] // keys.index.shape[-3]
        keys, values = (replace(rows, index=rows.index.repeat_interleave(count, -3)) for rows in (keys, values))
    causal, scale = arguments["is_causal"], arguments.get("scale")
    return attention(graph, place, queries, keys, values, mask, causal, scale)


def _mean(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    return mean(graph, place, arguments["self"], arguments["dim"], arguments["keepdim"])


def _variance(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if arguments.get("unbiased", arguments.get("correction") != 0):
        raise place.error("is the variance of a sample: give it correction=0")
    return composed.variance(
        place, rows_of(place, arguments["self"]), list(arguments["dim"] or []), arguments["keepdim"]
    )


def _length(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if arguments["ord"] != 2:
        raise place.error(f"is a norm of order {arguments['ord']}")
    return composed.length(place, rows_of(place, arguments["self"]), list(arguments["dim"] or []), arguments["keepdim"])


def _at_least(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if not isinstance(arguments["self"], Composed) or arguments.get("max") is not None:
        raise place.error("clips values")
    return composed.at_least(place, arguments["self"], arguments["min"])


def _average(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    rows = rows_of(place, arguments["self"])
    if set(arguments["output_size"]) != {1}:
        raise place.error(f"gives {arguments['output_size']} values, not 1")
    count = len(arguments["output_size"])
    return pooled(graph, place, rows, [-1 - axis for axis in range(count)], True)


def _dropout(graph: RowGraph, place: Place, arguments: Arguments) -> Value:
    if arguments["train"]:
        raise place.error("is active in evaluation mode: give it training=self.training")
    arguments.without_effect("p")
    return arguments["input"]  # type: ignore[no-any-return]


_TITLES: dict[Handler, str] = {
    _linear: "linear.default",
    _addmm: "addmm.default baddbmm.default",
    lambda graph, place, arguments: einsum(graph, place, *arguments.first(2)): "einsum.default",
    _convolution: "conv2d.default conv2d.padding conv1d.default conv1d.padding convolution.default",
    _layer_norm: "layer_norm.default",
    _rms_norm: "rms_norm.default",
    _gelu: "gelu.default",
    _softmax: "softmax.int _softmax.default log_softmax.int _log_softmax.default",
    _attention: "scaled_dot_product_attention.default",
    lambda graph, place, arguments: add(
        graph, place, arguments["other"], multiply(graph, place, arguments["self"], -1.0)
    ): "rsub.Scalar rsub.Tensor",
    _mean: "mean.dim",
    _variance: "var.dim var.correction",
    _length: "linalg_vector_norm.default",
    _at_least: "clamp_min.default clamp.default",
    _average: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default",
    lambda graph, place, arguments: chosen(
        place, arguments["mask"], arguments["value"], arguments["self"]
    ): "masked_fill.Scalar masked_fill.Tensor",
    _dropout: "dropout.default",
    # the second output is the mask, which hides nothing
    lambda graph, place, arguments: (
        _dropout(graph, place, arguments),
        Constant(torch.ones(())),
    ): "native_dropout.default",
    **{handler: titles for _, titles, handler in OPERATIONS},
}
_HANDLERS: dict[str, Handler] = {
    f"aten.{title}": handler for handler, titles in _TITLES.items() for title in titles.split()
}
_VIEWED = (
    "view.default reshape.default _unsafe_view.default flatten.using_ints unflatten.int squeeze.default squeeze.dim "
    "squeeze.dims unsqueeze.default permute.default transpose.int t.default movedim.int movedim.intlist "
    "swapaxes.default select.int slice.Tensor narrow.default unbind.int split.Tensor split_with_sizes.default "
    "chunk.default expand.default expand_as.default repeat.default repeat_interleave.self_int flip.default "
    "roll.default cat.default concat.default clone.default detach.default alias.default contiguous.default to.dtype "
    "to.dtype_layout _to_copy.default lift_fresh_copy.default numpy_T.default mT.default adjoint.default"
)
_VIEWS = frozenset(f"aten.{title}" for title in _VIEWED.split())
