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
from .row_graph import FoundTransformer, RowGraph, Rows
from .row_operations import activation, linear, norm, pooled
from .row_samples import convolution, joined


class ExportedOperations(ExportedGraph):
    """Walk over the operators of a program.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    input_shape : tuple of int
        Shape of one sample: an image, or rows of (tokens, features).
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
            If something has no place in the normal form; with its line.
        """
        with torch.no_grad():
            rows, host = output_of(*self.walk())
            return self.graph.finish(rows, self.program.state_dict, host)

    def sample(self, node: Node) -> Rows:
        return self.graph.sample()

    def constant(self, node: Node, name: str, tensor: Tensor) -> Constant:
        return Constant(tensor.detach().cpu(), name)

    def operator(self, node: Node, title: str, place: Place) -> Value:
        if all(_is_constant(self.values[one]) for one in node.all_input_nodes):
            return self._computed(node, place)
        if title in _VIEWS:
            return self._view(node, title, place)
        handler = _HANDLERS.get(title)
        if handler is None:
            raise place.error(f"has no place in a transformer here, which has {KNOWN}")
        given = self.given(node)
        if (kind := given.get("dtype")) not in (None, torch.float32, torch.float64):
            raise place.error(f"computes in {kind}")
        found = handler(self.graph, place, given)
        given.check(place)
        if isinstance(found, Rows | Scores | Composed | Function) and found.index.shape != shape_of(node):
            raise place.error(f"gives {shape_of(node)}, which is followed as {tuple(found.index.shape)}")
        return found

    def _computed(self, node: Node, place: Place) -> Value:
        """Compute an operator of the module's tensors alone, or of none."""

        def tensor(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [tensor(each) for each in value]
            return value.tensor if isinstance(value, Constant) else value

        operator: Any = node.target
        if torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
            raise place.error("draws random numbers")
        settings = {name: tensor(self.argument(one)) for name, one in node.kwargs.items()}
        made = operator(*tensor(self.argument(node.args)), **settings)
        names = {one.name for one in map(self.values.get, node.all_input_nodes) if isinstance(one, Constant)}
        name = names.pop() if len(names) == 1 else ""
        if isinstance(made, tuple | list):
            return tuple(Constant(one, name) for one in made)
        return Constant(torch.as_tensor(made), name)

    def _view(self, node: Node, title: str, place: Place) -> Value:
        """Make a view of numbers as the operator makes it of values."""
        operator: Any = node.target
        given, *rest = self.argument(node.args)
        if isinstance(given, list):
            return self._joined(given, place, rest[0] if rest else node.kwargs.get("dim", 0))
        title, shape = title.split(".")[1], shape_of(node)
        if isinstance(given, Constant):
            # all others have no operand but this one
            assert title == "expand_as", "is of constants alone"
            return replace(given, tensor=given.tensor.expand(shape))
        value: Rows | Scores | Composed | Function = given
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
        made = operator(value.index, *rest, **node.kwargs)
        if isinstance(made, tuple | list):
            return tuple(replace(value, index=one) for one in made)
        return replace(value, index=made)

    def _joined(self, pieces: Sequence[Value], place: Place, dim: Any) -> Rows:
        """Concatenation: of parts of one operation's outputs, or of constant tokens and these."""
        given = [one for one in pieces if isinstance(one, Rows | Constant)]
        rows = [one for one in given if isinstance(one, Rows)]
        if len(given) != len(pieces):
            raise place.error("joins what is no output of an operation")
        if len(rows) == len(given) and len({(one.number, one.factor) for one in rows}) == 1:
            return replace(rows[0], index=torch.cat([one.index for one in rows], dim))
        return joined(self.graph, place, given, dim)


def _is_constant(value: Value) -> bool:
    return all(map(_is_constant, value)) if isinstance(value, tuple) else isinstance(value, Constant)


def _linear(graph: RowGraph, place: Place, given: Arguments) -> Value:
    weight, bias = needed(place, "weight", given["weight"]), constant_of(place, "bias", given["bias"])
    return linear(graph, place, rows_of(place, given["input"]), weight, bias)


def _addmm(graph: RowGraph, place: Place, given: Arguments) -> Value:
    added, first, second = given.first(3)
    return add(graph, place, product(graph, place, first, second), added)


def _convolution(graph: RowGraph, place: Place, given: Arguments) -> Value:
    rows, weight = rows_of(place, given["input"]), needed(place, "weight", given["weight"])
    bias = constant_of(place, "bias", given["bias"])
    given.without_effect("output_padding")
    if given["groups"] != 1 or given.get("transposed") or given["padding"] == "same":
        raise place.error("is in groups, transposed, or padded to the same size")
    padding = 0 if given["padding"] == "valid" else given["padding"]
    return convolution(graph, place, rows, weight, bias, given["stride"], padding, given["dilation"])


def _layer_norm(graph: RowGraph, place: Place, given: Arguments) -> Value:
    factor, bias = (constant_of(place, kind, given[kind]) for kind in ("weight", "bias"))
    axes = len(given["normalized_shape"])
    return norm(graph, place, rows_of(place, given["input"]), factor, bias, given["eps"], axes=axes)


def _rms_norm(graph: RowGraph, place: Place, given: Arguments) -> Value:
    eps = torch.finfo(torch.float32).eps if given["eps"] is None else given["eps"]
    rows, factor = rows_of(place, given["input"]), constant_of(place, "weight", given["weight"])
    return norm(graph, place, rows, factor, None, eps, False, len(given["normalized_shape"]))


def _gelu(graph: RowGraph, place: Place, given: Arguments) -> Value:
    kind: ActivationKind = "gelu" if given["approximate"] == "none" else "gelu-tanh"
    return activation(graph, place, rows_of(place, given["self"]), kind)


def _softmax(graph: RowGraph, place: Place, given: Arguments) -> Value:
    given.without_effect("half_to_float")
    return softmax_of(place, given["self"], given["dim"], "log_softmax" if "log" in place.operator else "softmax")


def _attention(graph: RowGraph, place: Place, given: Arguments) -> Value:
    queries, keys, values = (rows_of(place, one) for one in given.first(3))
    mask = constant_of(place, "mask", given["attn_mask"])
    if given["dropout_p"]:
        raise place.error(f"drops {given['dropout_p']:g} of the weights in evaluation mode")
    if given.get("enable_gqa"):
        count = queries.index.shape[-3] // keys.index.shape[-3]
        keys, values = (replace(one, index=one.index.repeat_interleave(count, -3)) for one in (keys, values))
    causal, scale = given["is_causal"], given.get("scale")
    return attention(graph, place, queries, keys, values, mask, causal, scale)


def _mean(graph: RowGraph, place: Place, given: Arguments) -> Value:
    return mean(graph, place, given["self"], given["dim"], given["keepdim"])


def _variance(graph: RowGraph, place: Place, given: Arguments) -> Value:
    if given.get("unbiased", given.get("correction") != 0):
        raise place.error("is the variance of a sample: give it correction=0")
    return composed.variance(place, rows_of(place, given["self"]), list(given["dim"] or []), given["keepdim"])


def _length(graph: RowGraph, place: Place, given: Arguments) -> Value:
    if given["ord"] != 2:
        raise place.error(f"is a norm of order {given['ord']}")
    return composed.length(place, rows_of(place, given["self"]), list(given["dim"] or []), given["keepdim"])


def _at_least(graph: RowGraph, place: Place, given: Arguments) -> Value:
    if not isinstance(given["self"], Composed) or given.get("max") is not None:
        raise place.error("clips values")
    return composed.at_least(place, given["self"], given["min"])


def _average(graph: RowGraph, place: Place, given: Arguments) -> Value:
    rows = rows_of(place, given["self"])
    if set(given["output_size"]) != {1}:
        raise place.error(f"gives {given['output_size']} values, not 1")
    count = len(given["output_size"])
    return pooled(graph, place, rows, [-1 - at for at in range(count)], True)


def _dropout(graph: RowGraph, place: Place, given: Arguments) -> Value:
    if given["train"]:
        raise place.error("is active in evaluation mode: give it training=self.training")
    given.without_effect("p")
    return given["input"]  # type: ignore[no-any-return]


_TITLES: dict[Handler, str] = {
    _linear: "linear.default",
    _addmm: "addmm.default baddbmm.default",
    lambda graph, place, given: einsum(graph, place, *given.first(2)): "einsum.default",
    _convolution: "conv2d.default conv2d.padding conv1d.default conv1d.padding convolution.default",
    _layer_norm: "layer_norm.default",
    _rms_norm: "rms_norm.default",
    _gelu: "gelu.default",
    _softmax: "softmax.int _softmax.default log_softmax.int _log_softmax.default",
    _attention: "scaled_dot_product_attention.default",
    lambda graph, place, given: add(
        graph, place, given["other"], multiply(graph, place, given["self"], -1.0)
    ): "rsub.Scalar rsub.Tensor",
    _mean: "mean.dim",
    _variance: "var.dim var.correction",
    _length: "linalg_vector_norm.default",
    _at_least: "clamp_min.default clamp.default",
    _average: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default",
    lambda graph, place, given: chosen(
        place, given["mask"], given["value"], given["self"]
    ): "masked_fill.Scalar masked_fill.Tensor",
    _dropout: "dropout.default",
    # the second output is a mask, which hides nothing
    lambda graph, place, given: (_dropout(graph, place, given), Constant(torch.ones(()))): "native_dropout.default",
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
