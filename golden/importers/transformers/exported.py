"""Import of a user's PyTorch module as a transformer, by the graph of operators that `torch.export` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from torch.fx import Node

from ...errors import UserError
from ...models.layers import Shape
from ...transformer.blocks import ActivationKind
from ..layers.arguments import Arguments, aten_arguments
from ..layers.batch_size import check_batch_size
from ..layers.exported import exported
from ..layers.exported_graph import place_of, plain, shape_of, tensors_of, title_of
from ..layers.graph import Place
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
from .attention_scores import Scores, attention, not_a_number
from .composed import Composed
from .functions import UNARY, Function
from .row_graph import Constant, FoundTransformer, RowGraph, Rows
from .row_operations import activation, linear, norm, pooled
from .row_samples import convolution, joined

KNOWN = (
    "linear layers, layer and RMS norm, attention, GELU, ReLU, SiLU, sums, products, patches of samples, class token, "
    "positions, first, last or mean token"
)


def transformer_of(module: nn.Module, input_shape: Shape, name: str) -> FoundTransformer:
    """Import a user's module.

    Parameters
    ----------
    module : nn.Module
        Takes a batch of samples; not modified.
    input_shape : tuple of int
        Shape of one sample: an image, or rows of (tokens, features).
    name : str
        Origin of the module for messages: ``model.py:build``.

    Raises
    ------
    UserError
        If the module cannot be exported, or something in it has no place in the normal form; with its line.
    """
    found = walked(exported(module, input_shape, name), input_shape, name)
    check_batch_size(module, input_shape, name)
    return found


def walked(program: torch.export.ExportedProgram, input_shape: Shape, name: str) -> FoundTransformer:
    """Import an exported program; parameters and errors as of `transformer_of`."""
    with torch.no_grad():
        return _Walk(program, input_shape, name).run()


class _Walk:
    """Walk over the operators of an exported program."""

    def __init__(self, program: torch.export.ExportedProgram, input_shape: Shape, name: str) -> None:
        self._program, self._name = program, name
        self.graph = RowGraph(name, input_shape)
        self._values: dict[Node, Value] = {}

    def run(self) -> FoundTransformer:
        self._program.graph.eliminate_dead_code()
        tensors = tensors_of(self._program)
        for node in self._program.graph.nodes:
            if node.op == "placeholder" and node.name in tensors:
                name, tensor = tensors[node.name]
                self._values[node] = Constant(tensor.detach().cpu(), name)
            elif node.op == "placeholder":
                self._values[node] = self.graph.sample()
            elif node.op == "call_function" and title_of(node) != "aten._assert_tensor_metadata.default":
                self._values[node] = self._operator(node)
            elif node.op == "output":
                return self._output(node)
        raise AssertionError("an exported program has an output")

    def _output(self, node: Node) -> FoundTransformer:
        mutated = [one for one in self._program.graph_signature.output_specs if one.kind.name != "USER_OUTPUT"]
        if mutated:
            raise UserError(f"{self._name} changes {mutated[0].target or 'its input'} when it runs")
        (found,) = self._argument(node.args)
        rows, host = output_of(Place("output", f"{self._name}: its output"), found[0])
        return self.graph.finish(rows, self._program.state_dict, host)

    def _operator(self, node: Node) -> Value:
        """Import one operator."""
        place, title = place_of(node, self._name), title_of(node)
        read = [self._values[one] for one in node.all_input_nodes]
        own = Place(place.title, place.where, place.code)
        if all(_is_constant(one) for one in read):
            return self._computed(node, place)
        try:
            if title in _VIEWS or title == "getitem":
                return self._view(node, own)
            if handler := _OPERATORS.get(title):
                given = aten_arguments(node, self._argument)
                if (kind := given.get("dtype")) not in (None, torch.float32, torch.float64):
                    raise own.error(f"computes in {kind}")
                found = handler(self, own, given)
                given.check(own)
                if isinstance(found, Rows | Scores | Composed | Function) and found.index.shape != shape_of(node):
                    raise own.error(f"gives {shape_of(node)}, which is followed as {tuple(found.index.shape)}")
                return found
            raise own.error(f"has no place in a transformer here, which has {KNOWN}")
        except UserError as error:
            # an operator of the reason, as a line may have several
            raise UserError(str(error).replace(f"{own.where}: ", f"{own.where}: {plain(node)} ", 1)) from None

    def _argument(self, one: Any) -> Any:
        if isinstance(one, Node):
            return self._values[one]
        if isinstance(one, list | tuple):
            return [self._argument(each) for each in one]
        return one

    def _computed(self, node: Node, place: Place) -> Value:
        """Compute an operator of the module's tensors alone, or of none."""

        def tensor(one: Any) -> Any:
            value = self._values[one] if isinstance(one, Node) else one
            if isinstance(value, list | tuple):
                return [tensor(each) for each in value]
            return value.tensor if isinstance(value, Constant) else value

        operator: Any = node.target
        if torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
            raise place.error(f"{plain(node)} draws random numbers")
        made = operator(*map(tensor, node.args), **{name: tensor(one) for name, one in node.kwargs.items()})
        names = {one.name for one in map(self._values.get, node.all_input_nodes) if isinstance(one, Constant)}
        name = names.pop() if len(names) == 1 else ""
        if isinstance(made, tuple | list):
            return tuple(Constant(one, name) for one in made)
        return Constant(torch.as_tensor(made), name)

    def _view(self, node: Node, place: Place) -> Value:
        """Make a view of numbers as the operator makes it of values."""
        operator: Any = node.target
        given, *rest = self._argument(node.args)
        if title_of(node) == "getitem":
            found: Value = given[rest[0]]
            return found
        if isinstance(given, list):
            return self._joined(given, place, rest[0] if rest else node.kwargs.get("dim", 0))
        title, shape = title_of(node).split(".")[1], shape_of(node)
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


Handler = Callable[[_Walk, Place, Arguments], Value]


def _constant(place: Place, what: str, value: Any) -> Constant | None:
    if value is not None and not isinstance(value, Constant):
        raise place.error(f"has a {what} that is computed from the samples")
    return value


def _needed(place: Place, what: str, value: Any) -> Constant:
    found = _constant(place, what, value)
    if found is None:
        raise place.error(f"has no {what}")
    return found


# -- linear layers and products ----------------------------------------------------------------------------------------


def _linear(walk: _Walk, place: Place, given: Arguments) -> Value:
    weight, bias = _needed(place, "weight", given["weight"]), _constant(place, "bias", given["bias"])
    return linear(walk.graph, place, rows_of(place, given["input"]), weight, bias)


def _matmul(walk: _Walk, place: Place, given: Arguments) -> Value:
    return product(walk.graph, place, given["self"], given.get("other", given.get("mat2")))


def _addmm(walk: _Walk, place: Place, given: Arguments) -> Value:
    first, second = (given.get(f"mat{at}", given.get(f"batch{at}")) for at in (1, 2))
    return add(walk.graph, place, product(walk.graph, place, first, second), given["self"])


def _convolution(walk: _Walk, place: Place, given: Arguments) -> Value:
    rows, weight = rows_of(place, given["input"]), _needed(place, "weight", given["weight"])
    bias = _constant(place, "bias", given["bias"])
    given.without_effect("output_padding")
    if given["groups"] != 1 or given.get("transposed") or given["padding"] == "same":
        raise place.error("is in groups, transposed, or padded to the same size")
    flat = rows.index.ndim == 3

    def pair(value: Any, other: int) -> tuple[int, int]:
        sides = [value] if isinstance(value, int) else [*value]
        return (other, sides[0]) if flat else (sides[0], sides[-1])

    padding = 0 if given["padding"] == "valid" else given["padding"]
    settings = {
        "stride": pair(given["stride"], 1),
        "padding": pair(padding, 0),
        "dilation": pair(given["dilation"], 1),
    }
    if flat:
        wide = replace(weight, tensor=weight.tensor[:, :, None])
        found = convolution(walk.graph, place, replace(rows, index=rows.index[:, :, None]), wide, bias, settings)
        return replace(found, index=found.index[:, :, 0])
    return convolution(walk.graph, place, rows, weight, bias, settings)


# -- norms, activations ------------------------------------------------------------------------------------------------


def _layer_norm(walk: _Walk, place: Place, given: Arguments) -> Value:
    factor, bias = (_constant(place, kind, given[kind]) for kind in ("weight", "bias"))
    axes = len(given["normalized_shape"])
    return norm(walk.graph, place, rows_of(place, given["input"]), factor, bias, given["eps"], axes=axes)


def _rms_norm(walk: _Walk, place: Place, given: Arguments) -> Value:
    eps = torch.finfo(torch.float32).eps if given["eps"] is None else given["eps"]
    rows, factor = rows_of(place, given["input"]), _constant(place, "weight", given["weight"])
    return norm(walk.graph, place, rows, factor, None, eps, False, len(given["normalized_shape"]))


def _activation(kind: ActivationKind) -> Handler:
    return lambda walk, place, given: activation(walk.graph, place, rows_of(place, given["self"]), kind)


def _gelu(walk: _Walk, place: Place, given: Arguments) -> Value:
    kind: ActivationKind = "gelu" if given["approximate"] == "none" else "gelu-tanh"
    return activation(walk.graph, place, rows_of(place, given["self"]), kind)


def _function(name: str) -> Handler:
    """Function of each value, as a part of another or as one that the host computes."""
    return lambda walk, place, given: function(walk.graph, place, name, given["self"])


def _softmax(kind: Literal["softmax", "log_softmax"]) -> Handler:
    def handler(walk: _Walk, place: Place, given: Arguments) -> Value:
        given.without_effect("half_to_float")
        return softmax_of(place, given["self"], given["dim"], kind)

    return handler


def _attention(walk: _Walk, place: Place, given: Arguments) -> Value:
    queries, keys, values = (rows_of(place, given[one]) for one in ("query", "key", "value"))
    mask = _constant(place, "mask", given["attn_mask"])
    if given["dropout_p"]:
        raise place.error(f"drops {given['dropout_p']:g} of the weights in evaluation mode")
    if given.get("enable_gqa"):
        count = queries.index.shape[-3] // keys.index.shape[-3]
        keys, values = (replace(one, index=one.index.repeat_interleave(count, -3)) for one in (keys, values))
    causal, scale = given["is_causal"], given.get("scale")
    return attention(walk.graph, place, queries, keys, values, mask, causal, scale)


# -- sums, products, means ---------------------------------------------------------------------------------------------


def _add(walk: _Walk, place: Place, given: Arguments) -> Value:
    return add(walk.graph, place, given["self"], given["other"])


def _subtract(walk: _Walk, place: Place, given: Arguments) -> Value:
    return subtract(walk.graph, place, given["self"], given["other"])


def _subtract_reversed(walk: _Walk, place: Place, given: Arguments) -> Value:
    return subtract(walk.graph, place, given["other"], given["self"])


def _multiply(walk: _Walk, place: Place, given: Arguments) -> Value:
    return multiply(walk.graph, place, given["self"], given["other"])


def _divide(walk: _Walk, place: Place, given: Arguments) -> Value:
    return divide(walk.graph, place, given["self"], given["other"])


def _power(exponent: float | None = None) -> Handler:
    def handler(walk: _Walk, place: Place, given: Arguments) -> Value:
        wanted = given["exponent"] if exponent is None else exponent
        return power(walk.graph, place, given["self"], wanted)

    return handler


def _mean(walk: _Walk, place: Place, given: Arguments) -> Value:
    return mean(walk.graph, place, given["self"], given["dim"], given["keepdim"])


def _variance(walk: _Walk, place: Place, given: Arguments) -> Value:
    if given.get("unbiased", given.get("correction") != 0):
        raise place.error("is the variance of a sample: give it correction=0")
    return composed.variance(place, rows_of(place, given["self"]), list(given["dim"] or []), given["keepdim"])


def _length(walk: _Walk, place: Place, given: Arguments) -> Value:
    if given["ord"] != 2:
        raise place.error(f"is a norm of order {given['ord']}")
    return composed.length(place, rows_of(place, given["self"]), list(given["dim"] or []), given["keepdim"])


def _at_least(walk: _Walk, place: Place, given: Arguments) -> Value:
    if not isinstance(given["self"], Composed) or given.get("max") is not None:
        raise place.error("clips values")
    return composed.at_least(place, given["self"], given["min"])


def _average(walk: _Walk, place: Place, given: Arguments) -> Value:
    rows = rows_of(place, given["self"])
    if set(given["output_size"]) != {1}:
        raise place.error(f"gives {given['output_size']} values, not 1")
    count = len(given["output_size"])
    return pooled(walk.graph, place, rows, [-1 - at for at in range(count)], True)


def _filled(walk: _Walk, place: Place, given: Arguments) -> Value:
    return chosen(place, given["mask"], given["value"], given["self"])


def _chosen(walk: _Walk, place: Place, given: Arguments) -> Value:
    return chosen(place, given["condition"], given["self"], given["other"])


def _dropout(walk: _Walk, place: Place, given: Arguments) -> Value:
    if given["train"]:
        raise place.error("is active in evaluation mode: give it training=self.training")
    given.without_effect("p")
    return given["input"]  # type: ignore[no-any-return]


_HANDLERS: dict[Handler, str] = {
    _linear: "linear.default",
    _matmul: "matmul.default mm.default bmm.default",
    _addmm: "addmm.default baddbmm.default",
    lambda walk, place, given: einsum(walk.graph, place, given["equation"], given["tensors"]): "einsum.default",
    _convolution: "conv2d.default conv2d.padding conv1d.default conv1d.padding convolution.default",
    _layer_norm: "layer_norm.default",
    _rms_norm: "rms_norm.default",
    _activation("relu"): "relu.default",
    _activation("silu"): "silu.default",
    _gelu: "gelu.default",
    _softmax("softmax"): "softmax.int _softmax.default",
    _softmax("log_softmax"): "log_softmax.int _log_softmax.default",
    _attention: "scaled_dot_product_attention.default",
    _add: "add.Tensor add.Scalar",
    _subtract: "sub.Tensor sub.Scalar",
    _subtract_reversed: "rsub.Scalar rsub.Tensor",
    _multiply: "mul.Tensor mul.Scalar",
    lambda walk, place, given: multiply(walk.graph, place, given["self"], -1.0): "neg.default",
    _divide: "div.Tensor div.Scalar",
    _power(): "pow.Tensor_Scalar",
    _power(2): "square.default",
    _power(0.5): "sqrt.default",
    _power(-0.5): "rsqrt.default",
    _power(-1): "reciprocal.default",
    _mean: "mean.dim",
    _variance: "var.dim var.correction",
    _length: "linalg_vector_norm.default",
    _at_least: "clamp_min.default clamp.default",
    _average: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default",
    _filled: "masked_fill.Scalar masked_fill.Tensor",
    _chosen: "where.self where.ScalarOther where.ScalarSelf",
    lambda walk, place, given: not_a_number(place, given["self"]): "isnan.default",
    _dropout: "dropout.default",
    # the second output is a mask, which hides nothing
    lambda walk, place, given: (_dropout(walk, place, given), Constant(torch.ones(()))): "native_dropout.default",
    **{_function(name): f"{name}.default" for name in UNARY},
}
_OPERATORS: dict[str, Handler] = {
    f"aten.{title}": handler for handler, titles in _HANDLERS.items() for title in titles.split()
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
