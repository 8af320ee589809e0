"""Norms, lengths and functions of each value, composed of several operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isclose
from typing import Literal

import torch
from torch import Tensor

from ...transformer.blocks import ActivationKind
from ..graph import Constant, Place
from .row_graph import RowGraph, RowTensor
from .row_operations import activation, is_relu, norm, squared, unit_length

_CLOSE = 1e-6
"""Largest difference relative to 1 + abs(x): constants of float32 and of ten digits are closer."""
_POINTS = torch.cat([torch.linspace(-12, 12, 1921), torch.tensor([-80.0, -40.0, -20.0, 20.0, 40.0, 80.0])]).double()
"""Arguments at which functions are compared; different functions differ here."""
_TANH = (2 / torch.pi) ** 0.5 * (_POINTS + 0.044715 * _POINTS**3)
_KINDS: dict[ActivationKind, Tensor] = {
    "gelu": _POINTS * (1 + torch.erf(_POINTS / 2**0.5)) / 2,
    "gelu-tanh": _POINTS * (1 + torch.tanh(_TANH)) / 2,
    "silu": _POINTS * torch.sigmoid(_POINTS),
}
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "exp": torch.exp,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
}
"""Functions of one value by ATen's names."""
Kind = Literal[
    "mean",
    "centred",
    "centred square",
    "mean square",
    "variance",
    "root",
    "inverse root",
    "length",
    "softmax",
    "log_softmax",
]
"""Kinds of intermediate results; a softmax is that of the outputs, which no operator may read."""


@dataclass(frozen=True, eq=False)
class Composed:
    """Intermediate result.

    Parameters
    ----------
    rows : RowTensor
        Input of the computation.
    index : Tensor
        Has the result's shape; the values are meaningless for a result of 1 value per row.
    value : float
        Number added to a mean of squares.
    centred : bool
        For a root: true for the root of a variance.
    """

    kind: Kind
    rows: RowTensor
    index: Tensor
    value: float = 0.0
    centred: bool = False


def same(first: RowTensor, second: RowTensor) -> bool:
    """True if two tensors are equal."""
    return isclose(first.factor, second.factor, rel_tol=_CLOSE) and of_one(first, second)


def _over_rows(place: Place, index: Tensor, dims: list[int], keep: bool) -> Tensor:
    if [axis % index.ndim for axis in dims] != [index.ndim - 1] or not keep:
        raise place.error(f"is over {dims}: over the features of a token, kept as an axis of 1, it is known")
    return index[..., :1]


def mean(place: Place, operand: RowTensor | Composed | Function, dims: list[int], keep: bool) -> Composed:
    """Mean over the features of a token, or of their squares."""
    index = _over_rows(place, operand.index, dims, keep)
    if isinstance(operand, RowTensor):
        return Composed("mean", operand, index)
    if isinstance(operand, Composed):
        if operand.kind != "centred square":
            raise place.error(f"is a mean of a {operand.kind}")
        return Composed("variance", operand.rows, index)
    factor = squared_factor(operand)
    if factor is None:
        raise place.error("is a mean of a function of values that is no square")
    return Composed("mean square", RowTensor(operand.number, operand.index, factor), index)


def variance(place: Place, operand: RowTensor, dims: list[int], keep: bool) -> Composed:
    """Population variance over the features of a token."""
    return Composed("variance", operand, _over_rows(place, operand.index, dims, keep))


def length(place: Place, operand: RowTensor, dims: list[int], keep: bool) -> Composed:
    """L2 norm over the features of a token."""
    return Composed("length", operand, _over_rows(place, operand.index, dims, keep))


def power(
    graph: RowGraph, place: Place, operand: RowTensor | Composed | Function, exponent: float
) -> RowTensor | Composed | Function:
    """Square or root of a part of a norm, square of a ReLU, or a power as a function of each value."""
    if isinstance(operand, Composed):
        if exponent == 2:
            return squared_difference(place, operand)
        if abs(exponent) == 0.5:
            return root(place, operand, exponent < 0)
        if exponent == -1 and operand.kind == "root":
            return replace(operand, kind="inverse root")
        raise place.error(f"is the power of {exponent:g} of a {operand.kind}")
    if exponent == 2 and isinstance(operand, RowTensor) and is_relu(graph, operand):
        return squared(graph, place, operand)
    return applied(graph, place, torch.pow, operand, exponent)


def squared_difference(place: Place, operand: Composed) -> Composed:
    """Square of the difference from the mean."""
    if operand.kind != "centred":
        raise place.error(f"is the square of a {operand.kind}")
    return replace(operand, kind="centred square")


def root(place: Place, operand: Composed, inverse: bool) -> Composed:
    """Square root of a mean of squares, or its inverse."""
    if operand.kind not in ("variance", "mean square"):
        raise place.error(f"is the root of a {operand.kind}")
    kind: Kind = "inverse root" if inverse else "root"
    return replace(operand, kind=kind, centred=operand.kind == "variance")


def plus_number(place: Place, operand: Composed, number: float) -> Composed:
    """Mean of squares plus eps."""
    if operand.kind in ("variance", "mean square") and 0 < number < 1 and not operand.value:
        return replace(operand, value=number)
    raise place.error(f"adds {number:g} to a {operand.kind}")


def at_least(place: Place, operand: Composed, number: float) -> Composed:
    """Length with a small lower bound, against a division by 0."""
    if operand.kind != "length" or not 0 <= number <= 1e-6:
        raise place.error(f"is at least {number:g} of a {operand.kind}")
    return operand


def minus(place: Place, first: RowTensor, second: Composed) -> Composed:
    """Values minus their mean."""
    if second.kind != "mean" or not same(first, second.rows):
        raise place.error(f"subtracts a {second.kind} of something else")
    return Composed("centred", first, first.index)


def times(graph: RowGraph, place: Place, first: RowTensor | Composed, second: Composed) -> RowTensor | Composed:
    """Product with a part of a norm."""
    rows = first if isinstance(first, RowTensor) else first.rows
    if second.kind == "inverse root" and same(rows, second.rows):
        return _norm(graph, place, first, second)
    if isinstance(first, Composed) and first.kind == second.kind and same(rows, second.rows):
        return squared_difference(place, first)
    kind = first.kind if isinstance(first, Composed) else "value"
    raise place.error(f"is the product of a {kind} and the {second.kind} of something else")


def over(graph: RowGraph, place: Place, first: RowTensor | Composed, second: Composed) -> RowTensor:
    """Quotient by a root, or by the length."""
    rows = first if isinstance(first, RowTensor) else first.rows
    if second.kind == "root" and same(rows, second.rows):
        return _norm(graph, place, first, second)
    if second.kind == "length" and isinstance(first, RowTensor) and same(first, second.rows):
        return unit_length(graph, place, first)
    raise place.error(f"divides by the {second.kind} of something else")


def _norm(graph: RowGraph, place: Place, first: RowTensor | Composed, second: Composed) -> RowTensor:
    centred = isinstance(first, Composed)
    if (isinstance(first, Composed) and first.kind != "centred") or centred != second.centred or not second.value:
        raise place.error("is a norm without eps, or subtracts the mean in one place only")
    return norm(graph, place, second.rows, None, None, second.value, centred)


def number_of(value: object) -> float | None:
    """Value of a constant with a single element; None otherwise."""
    return float(value.tensor) if isinstance(value, Constant) and value.tensor.numel() == 1 else None


# -- functions of each value -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Function:
    """Tensor whose elements are a function of an operation's outputs.

    Parameters
    ----------
    number, index
        Operation and elements, as of `RowTensor`.
    values : Tensor of float64
        Values of the function at the points of comparison.
    """

    number: int
    index: Tensor
    values: Tensor


def of_one(first: RowTensor | Function, second: RowTensor | Function) -> bool:
    """True if two tensors are functions of the same elements."""
    return first.number == second.number and torch.equal(first.index, second.index)


def applied(
    graph: RowGraph,
    place: Place,
    operator: Callable[..., Tensor],
    value: RowTensor | Function,
    other: RowTensor | Function | float | None = None,
) -> RowTensor | Function:
    """Result of an operator on a function, with a number or another function of the same elements as second operand.

    Rows are returned for a known activation times a number, or for a product with a number; else a `Function`.
    """
    if isinstance(other, RowTensor | Function):
        if not of_one(value, other):
            raise place.error("is of functions of different values")
        result = operator(_values(value), _values(other))
    else:
        result = operator(_values(value)) if other is None else operator(_values(value), other)
    if factor := _factor(result, _POINTS):
        return RowTensor(value.number, value.index, factor)
    for kind, values in _KINDS.items():
        if factor := _factor(result, values):
            rows = activation(graph, place, RowTensor(value.number, value.index), kind)
            return RowTensor(rows.number, rows.index, factor)
    return Function(value.number, value.index, result)


def squared_factor(value: Function) -> float | None:
    """Factor f for a function (f x)**2; None for other functions."""
    factor = _factor(value.values, _POINTS**2)
    return factor**0.5 if factor is not None and factor > 0 else None


def _values(value: RowTensor | Function) -> Tensor:
    return value.values if isinstance(value, Function) else value.factor * _POINTS


def _factor(values: Tensor, known: Tensor) -> float | None:
    """Factor between values and a known function; None if not proportional."""
    factor = float(values @ known / (known @ known))
    if not factor or not ((values - factor * known).abs() <= _CLOSE * abs(factor) * (1 + known.abs())).all():
        return None
    # rounding of exact factors: half of twice a function is the function
    short = round(factor, 6)
    return short if abs(short - factor) <= 1e-9 * abs(factor) else factor
