"""Sums, products and quotients in a user's transformer, by the kinds of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..graph import Arguments, Constant, Place
from . import composed
from .attention_scores import Scores, context, hidden, masked, not_a_number, scores, softmax
from .composed import UNARY, Composed, Function, applied, of_one
from .row_graph import RowGraph, RowTensor
from .row_operations import activation, gated, is_relu, linear, plus, pooled, residual, squared, times

KNOWN = (
    "linear layers, layer and RMS norm, attention, GELU, ReLU, SiLU, sums, products, patches of samples, class token, "
    "positions, first, last or mean token"
)
"""Supported operations, for messages."""
Value = Constant | RowTensor | Scores | Composed | Function | tuple["Value", ...]
"""Kinds of a model's tensors."""
Handler = Callable[[RowGraph, Place, Arguments], Value]
"""Importer of an operator: from graph, place and arguments to its output."""


def rows_of(place: Place, value: Any) -> RowTensor:
    if isinstance(value, RowTensor):
        return value
    if isinstance(value, Function):
        raise place.error("reads a function of values that is neither GELU, SiLU nor a product with a number")
    kinds = {Constant: "a constant", Scores: "scores"}
    kind = f"the {value.kind} of values" if isinstance(value, Composed) else kinds.get(type(value), "no tensor")
    raise place.error(f"reads {kind}, not outputs of a layer")


def output_of(place: Place, value: Any) -> tuple[RowTensor, str]:
    """Rows returned by a model, and the softmax left to the host; empty for none."""
    if isinstance(value, Composed) and value.kind in ("softmax", "log_softmax"):
        return value.rows, value.kind
    return rows_of(place, value), ""


def product(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Matrix product: a linear layer, attention scores, or attention outputs."""
    if isinstance(second, Constant) and not isinstance(first, Scores):
        if second.tensor.ndim != 2:
            raise place.error(f"has a weight of {tuple(second.tensor.shape)}, which is no matrix")
        return linear(graph, place, rows_of(place, first), Constant(second.tensor.t(), second.name), None)
    if isinstance(first, RowTensor) and isinstance(second, RowTensor):
        return scores(graph, place, first, second)
    if isinstance(first, Scores) and isinstance(second, RowTensor):
        return context(graph, place, first, second)
    raise place.error("is a product that is neither a linear layer nor a part of attention")


def add(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Sum of two tensors, of a tensor and a constant, or of scores and a mask."""
    first, second = _constant_last(place, first, second)
    if isinstance(second, Constant):
        number = composed.number_of(second)
        if isinstance(first, Scores):
            return masked(place, first, second.tensor)
        if isinstance(first, RowTensor):
            return plus(graph, place, first, second)
        if number is None:
            raise place.error(f"adds a tensor to {_named(first)}")
        if isinstance(first, Function):
            return applied(graph, place, torch.add, first, number)
        return composed.plus_number(place, first, number)
    if isinstance(first, Function) or isinstance(second, Function):
        return _of_both(graph, place, torch.add, first, second)
    return residual(graph, place, rows_of(place, first), rows_of(place, second))


def subtract(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Difference of two tensors, of a tensor and a constant, or of values and their mean."""
    if isinstance(first, RowTensor) and isinstance(second, Composed):
        return composed.minus(place, first, second)
    return add(graph, place, first, multiply(graph, place, second, -1.0))


def multiply(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Product of two tensors, or of a tensor and a constant."""
    first, second = _constant_last(place, first, second)
    if isinstance(second, Constant):
        number = composed.number_of(second)
        if isinstance(first, Constant):
            return replace(first, tensor=first.tensor * second.tensor, name="")
        if isinstance(first, RowTensor):
            return times(graph, place, first, second)
        if number is None or isinstance(first, Composed):
            raise place.error(f"multiplies {_named(first)} by a {'tensor' if number is None else 'number'}")
        if isinstance(first, Function):
            return applied(graph, place, torch.mul, first, number)
        scores_of: Scores = first
        return scores_of.scaled(place, number)
    if isinstance(first, Composed) and isinstance(second, RowTensor):
        first, second = second, first
    if isinstance(second, Composed) and isinstance(first, RowTensor | Composed):
        return composed.times(graph, place, first, second)
    if isinstance(first, Function) or isinstance(second, Function):
        return _of_both(graph, place, torch.mul, first, second)
    first, second = rows_of(place, first), rows_of(place, second)
    if not of_one(first, second):
        return gated(graph, place, first, second)
    if is_relu(graph, first):
        return replace(squared(graph, place, first), factor=first.factor * second.factor)
    return applied(graph, place, torch.mul, first, second)


def divide(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Quotient of a tensor and a constant, of functions of a value, or of parts of a norm."""
    if isinstance(second, Composed) and isinstance(first, RowTensor | Composed):
        return composed.over(graph, place, first, second)
    if isinstance(second, int | float):
        second = Constant(torch.tensor(float(second), dtype=torch.float64))
    if isinstance(second, Constant):
        return multiply(graph, place, first, Constant(1 / second.tensor.double()))
    if isinstance(second, RowTensor | Function):
        number = first if isinstance(first, int | float) else None
        if isinstance(first, Constant):
            number = composed.number_of(first)
        if number is not None:
            return multiply(graph, place, applied(graph, place, torch.reciprocal, second), number)
        return _of_both(graph, place, torch.div, first, second)
    if isinstance(second, Composed) and composed.number_of(_as_constant(first)) == 1:
        return composed.power(graph, place, second, -1)
    raise place.error("divides by what depends on the samples")


def power(graph: RowGraph, place: Place, value: Any, exponent: Any) -> Value:
    """Power of each value, or of a part of a norm."""
    number = exponent if isinstance(exponent, int | float) else composed.number_of(exponent)
    if number is None or not isinstance(value, RowTensor | Composed | Function):
        raise place.error(f"is a power of {_named(value)}, or by what is no number")
    return composed.power(graph, place, value, number)


def function(graph: RowGraph, place: Place, name: str, value: Any) -> Value:
    """Function of each value by name in `UNARY`."""
    if not isinstance(value, RowTensor | Function):
        raise place.error(f"is the {name} of {_named(value)}")
    return applied(graph, place, UNARY[name], value)


def mean(graph: RowGraph, place: Place, value: Any, dims: Sequence[int] | None, keep: bool) -> Value:
    """Mean over all tokens, or over all features as a part of a norm; without axes over all of them."""
    if not isinstance(value, RowTensor | Composed | Function):
        raise place.error(f"is a mean of {_named(value)}")
    count = value.index.ndim
    over = [axis % count for axis in dims or range(count)]
    if isinstance(value, RowTensor) and not (keep and over == [count - 1]):
        return pooled(graph, place, value, over, keep)
    return composed.mean(place, value, over, keep)


def softmax_of(place: Place, value: Any, dim: int, kind: Literal["softmax", "log_softmax"]) -> Value:
    """Softmax of scores over the keys, or of the outputs, left to the host."""
    if isinstance(value, Scores):
        if kind != "softmax":
            raise place.error("is the logarithm of the softmax of scores, not the softmax")
        return softmax(place, value, dim)
    rows = rows_of(place, value)
    if rows.index.ndim == 2 and dim in (1, -1):
        # left to the host: changes no decision, and operators may not read the result
        return Composed(kind, rows, rows.index)
    raise place.error("is over neither the keys of scores nor the outputs, where it is left to the host")


def chosen(place: Place, condition: Any, first: Any, second: Any) -> Value:
    """Scores where a mask is true (or false), and a number elsewhere."""
    first, second = _as_constant(first), _as_constant(second)
    swapped = isinstance(second, Scores)
    value, other = (second, first) if swapped else (first, second)
    number = composed.number_of(other)
    if not isinstance(condition, Constant) or not isinstance(value, Scores) or number is None:
        raise place.error("replaces values that are no scores, by more than one number, or where the samples say so")
    mask = condition.tensor.bool()
    return hidden(place, value, mask if swapped else ~mask, number)


def _of_both(graph: RowGraph, place: Place, operator: Any, first: Any, second: Any) -> Value:
    """Function of two functions of the same values."""
    for operand in (first, second):
        if not isinstance(operand, RowTensor | Function):
            raise place.error(f"is of a function of values and {_named(operand)}")
    return applied(graph, place, operator, first, second)


def _constant_last(place: Place, first: Any, second: Any) -> tuple[Any, Any]:
    """Both operands of a sum or product, with a constant as the second; numbers become constants."""
    first, second = _as_constant(first), _as_constant(second)
    if isinstance(first, Constant):
        first, second = second, first
    if isinstance(second, Constant) and second.tensor.ndim > len(_shape(first)):
        raise place.error(f"is of a constant of {tuple(second.tensor.shape)}, which has more axes than the values")
    return first, second


def _as_constant(value: Any) -> Any:
    is_number = isinstance(value, int | float)
    return Constant(torch.tensor(float(value), dtype=torch.float64)) if is_number else value


def _named(value: Any) -> str:
    match value:
        case Composed():
            return f"the {value.kind} of values"
        case Scores():
            return "the softmax" if value.weights else "scores"
        case Function():
            return "a function of values"
    return "outputs of a layer"


def einsum(graph: RowGraph, place: Place, equation: str, tensors: Sequence[Any]) -> Value:
    """Product of two tensors by the names of their axes."""
    inputs, arrow, wanted = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    if not arrow or len(names) != 2 or "." in inputs or any(len(set(axes)) < len(axes) for axes in (*names, wanted)):
        raise place.error(f"{equation} is no product of two tensors with their axes by name")
    first, second = names
    leading = [axis for axis in wanted if axis in first and axis in second]
    rows = [axis for axis in first if axis not in second]
    columns = [axis for axis in second if axis not in first]
    inner = [axis for axis in first if axis in second and axis not in wanted]
    if sorted(wanted) != sorted([*leading, *rows, *columns]):
        raise place.error(f"{equation} sums over an axis of one tensor alone")

    def turned(value: Any, axes_of: str, before: list[str], after: list[str]) -> Any:
        def turn(tensor: Tensor) -> Tensor:
            wide = tensor.permute([axes_of.index(axis) for axis in (*leading, *before, *after)])
            position = len(leading)
            return wide.flatten(position, position + len(before) - 1).flatten(position + 1)

        if isinstance(value, Constant):
            return replace(value, tensor=turn(value.tensor))
        return replace(value, index=turn(value.index))

    if not (rows and columns and inner):
        raise place.error(f"{equation} is no matrix product")
    sizes = {
        axis: size
        for axes_of, value in zip(names, tensors, strict=True)
        for axis, size in zip(axes_of, _shape(value), strict=True)
    }
    result: Any = product(
        graph, place, turned(tensors[0], first, rows, inner), turned(tensors[1], second, inner, columns)
    )
    order = [*leading, *rows, *columns]
    index = result.index.reshape([sizes[axis] for axis in order]).permute([order.index(axis) for axis in wanted])
    permuted: Value = replace(result, index=index)
    return permuted


def _shape(value: Any) -> torch.Size:
    return value.tensor.shape if isinstance(value, Constant) else value.index.shape


# -- operators of both ATen and ONNX -----------------------------------------------------------------------------------


def _power(exponent: float) -> Handler:
    return lambda graph, place, arguments: power(graph, place, arguments.first(1)[0], exponent)


def _function(name: str) -> Handler:
    """Importer of a function of each value."""
    return lambda graph, place, arguments: function(graph, place, name, arguments.first(1)[0])


OPERATIONS: list[tuple[str, str, Handler]] = [
    (
        "MatMul",
        "matmul.default mm.default bmm.default",
        lambda graph, place, arguments: product(graph, place, *arguments.first(2)),
    ),
    ("Add", "add.Tensor add.Scalar", lambda graph, place, arguments: add(graph, place, *arguments.first(2))),
    ("Sub", "sub.Tensor sub.Scalar", lambda graph, place, arguments: subtract(graph, place, *arguments.first(2))),
    ("Mul", "mul.Tensor mul.Scalar", lambda graph, place, arguments: multiply(graph, place, *arguments.first(2))),
    ("Neg", "neg.default", lambda graph, place, arguments: multiply(graph, place, arguments.first(1)[0], -1.0)),
    ("Div", "div.Tensor div.Scalar", lambda graph, place, arguments: divide(graph, place, *arguments.first(2))),
    ("Pow", "pow.Tensor_Scalar", lambda graph, place, arguments: power(graph, place, *arguments.first(2))),
    ("", "square.default", _power(2)),
    ("Sqrt", "sqrt.default", _power(0.5)),
    ("", "rsqrt.default", _power(-0.5)),
    ("Reciprocal", "reciprocal.default", _power(-1)),
    (
        "Where",
        "where.self where.ScalarOther where.ScalarSelf",
        lambda graph, place, arguments: chosen(place, *arguments.first(3)),
    ),
    ("IsNaN", "isnan.default", lambda graph, place, arguments: not_a_number(place, arguments.first(1)[0])),
    (
        "Relu",
        "relu.default",
        lambda graph, place, arguments: activation(graph, place, rows_of(place, arguments.first(1)[0]), "relu"),
    ),
    (
        "Swish",
        "silu.default",
        lambda graph, place, arguments: activation(graph, place, rows_of(place, arguments.first(1)[0]), "silu"),
    ),
    *((name.capitalize(), f"{name}.default", _function(name)) for name in UNARY),
]
"""ONNX type, ATen titles, and their importer."""
