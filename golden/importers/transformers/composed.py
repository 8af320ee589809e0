"""Norms, lengths and functions of each value that a model computes by several operators: followed as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isclose
from typing import Literal

import torch
from torch import Tensor

from ...transformer.blocks import ActivationKind
from ..graph import Constant, Place
from .row_graph import RowGraph, Rows
from .row_operations import activation, is_relu, norm, squared, unit_length

_CLOSE = 1e-6
"""Largest relative difference, of values to 1 + abs(x): constants of float32 and of ten digits are closer."""
_POINTS = torch.cat([torch.linspace(-12, 12, 1921), torch.tensor([-80.0, -40.0, -20.0, 20.0, 40.0, 80.0])]).double()
"""Arguments at which functions are compared: all that differ do so here."""
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
"""Functions of one value by the name that ATen has for them."""
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
"""Values that operators compute on the way; a softmax is that of the outputs, which nothing reads here."""


@dataclass(frozen=True, eq=False)
class Composed:
    """Intermediate result.

    Parameters
    ----------
    kind : str
    rows : Rows
        Of what it is.
    index : Tensor
        Of its shape, without a meaning of its values where it is one value a row.
    value : float
        What was added to a mean of squares.
    centred : bool
        Of a root: whether it is that of a variance.
    """

    kind: Kind
    rows: Rows
    index: Tensor
    value: float = 0.0
    centred: bool = False


def same(first: Rows, second: Rows) -> bool:
    """Tell whether two tensors are one."""
    return isclose(first.factor, second.factor, rel_tol=_CLOSE) and of_one(first, second)


def _over_rows(place: Place, index: Tensor, dims: list[int], keep: bool) -> Tensor:
    if [one % index.ndim for one in dims] != [index.ndim - 1] or not keep:
        raise place.error(f"is over {dims}: over the features of a token, kept as an axis of 1, it is known")
    return index[..., :1]


def mean(place: Place, given: Rows | Composed | Function, dims: list[int], keep: bool) -> Composed:
    """Mean over the features of a token, or of their squares."""
    index = _over_rows(place, given.index, dims, keep)
    if isinstance(given, Rows):
        return Composed("mean", given, index)
    if isinstance(given, Composed):
        if given.kind != "centred square":
            raise place.error(f"is a mean of a {given.kind}")
        return Composed("variance", given.rows, index)
    factor = squared_factor(given)
    if factor is None:
        raise place.error("is a mean of a function of values that is no square")
    return Composed("mean square", Rows(given.number, given.index, factor), index)


def variance(place: Place, given: Rows, dims: list[int], keep: bool) -> Composed:
    """Variance over the features of a token, that of all, not of a sample."""
    return Composed("variance", given, _over_rows(place, given.index, dims, keep))


def length(place: Place, given: Rows, dims: list[int], keep: bool) -> Composed:
    """L2 norm over the features of a token."""
    return Composed("length", given, _over_rows(place, given.index, dims, keep))


def power(
    graph: RowGraph, place: Place, given: Rows | Composed | Function, exponent: float
) -> Rows | Composed | Function:
    """Power: a square or a root of a part of a norm, or a function of each value; of a ReLU, the square is one."""
    if isinstance(given, Composed):
        if exponent == 2:
            return squared_difference(place, given)
        if abs(exponent) == 0.5:
            return root(place, given, exponent < 0)
        if exponent == -1 and given.kind == "root":
            return replace(given, kind="inverse root")
        raise place.error(f"is the power of {exponent:g} of a {given.kind}")
    if exponent == 2 and isinstance(given, Rows) and is_relu(graph, given):
        return squared(graph, place, given)
    return applied(graph, place, torch.pow, given, exponent)


def squared_difference(place: Place, given: Composed) -> Composed:
    """Square of the difference from the mean."""
    if given.kind != "centred":
        raise place.error(f"is the square of a {given.kind}")
    return replace(given, kind="centred square")


def root(place: Place, given: Composed, inverse: bool) -> Composed:
    """Square root of a mean of squares, or its inverse."""
    if given.kind not in ("variance", "mean square"):
        raise place.error(f"is the root of a {given.kind}")
    kind: Kind = "inverse root" if inverse else "root"
    return replace(given, kind=kind, centred=given.kind == "variance")


def plus_number(place: Place, given: Composed, number: float) -> Composed:
    """Add a number: eps to a mean of squares, 1 to an error function."""
    if given.kind in ("variance", "mean square") and 0 < number < 1 and not given.value:
        return replace(given, value=number)
    raise place.error(f"adds {number:g} to a {given.kind}")


def at_least(place: Place, given: Composed, number: float) -> Composed:
    """Bound a length from below by a number that keeps a division by it finite."""
    if given.kind != "length" or not 0 <= number <= 1e-6:
        raise place.error(f"is at least {number:g} of a {given.kind}")
    return given


def minus(place: Place, first: Rows, second: Composed) -> Composed:
    """Subtract the mean."""
    if second.kind != "mean" or not same(first, second.rows):
        raise place.error(f"subtracts a {second.kind} of something else")
    return Composed("centred", first, first.index)


def times(graph: RowGraph, place: Place, first: Rows | Composed, second: Composed) -> Rows | Composed:
    """Multiply by a part of a norm."""
    rows = first if isinstance(first, Rows) else first.rows
    if second.kind == "inverse root" and same(rows, second.rows):
        return _norm(graph, place, first, second)
    if isinstance(first, Composed) and first.kind == second.kind and same(rows, second.rows):
        return squared_difference(place, first)
    kind = first.kind if isinstance(first, Composed) else "value"
    raise place.error(f"is the product of a {kind} and the {second.kind} of something else")


def over(graph: RowGraph, place: Place, first: Rows | Composed, second: Composed) -> Rows:
    """Divide by a root, or by the length."""
    rows = first if isinstance(first, Rows) else first.rows
    if second.kind == "root" and same(rows, second.rows):
        return _norm(graph, place, first, second)
    if second.kind == "length" and isinstance(first, Rows) and same(first, second.rows):
        return unit_length(graph, place, first)
    raise place.error(f"divides by the {second.kind} of something else")


def _norm(graph: RowGraph, place: Place, first: Rows | Composed, second: Composed) -> Rows:
    centred = isinstance(first, Composed)
    if (isinstance(first, Composed) and first.kind != "centred") or centred != second.centred or not second.value:
        raise place.error("is a norm without eps, or subtracts the mean in one place only")
    return norm(graph, place, second.rows, None, None, second.value, centred)


def number_of(value: object) -> float | None:
    """Value of a constant that is one number."""
    return float(value.tensor) if isinstance(value, Constant) and value.tensor.numel() == 1 else None


# -- functions of each value -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Function:
    """Tensor whose elements are a function of an operation's outputs.

    Parameters
    ----------
    number : int
        Operation, as of `Rows`.
    index : Tensor of int64
        As of `Rows`.
    values : Tensor of float64
        Of the function at the points of comparison.
    """

    number: int
    index: Tensor
    values: Tensor


def of_one(first: Rows | Function, second: Rows | Function) -> bool:
    """Tell whether two are functions of the same elements."""
    return first.number == second.number and torch.equal(first.index, second.index)


def applied(
    graph: RowGraph,
    place: Place,
    operator: Callable[..., Tensor],
    value: Rows | Function,
    other: Rows | Function | float | None = None,
) -> Rows | Function:
    """Apply an operator to a function, and to another of the same elements or a number.

    Returns
    -------
    Rows or Function
        Rows where the function is one that the normal form has, times a number, or nothing but a product.
    """
    if isinstance(other, Rows | Function):
        if not of_one(value, other):
            raise place.error("is of functions of different values")
        made = operator(_values(value), _values(other))
    else:
        made = operator(_values(value)) if other is None else operator(_values(value), other)
    if factor := _factor(made, _POINTS):
        return Rows(value.number, value.index, factor)
    for kind, values in _KINDS.items():
        if factor := _factor(made, values):
            found = activation(graph, place, Rows(value.number, value.index), kind)
            return Rows(found.number, found.index, factor)
    return Function(value.number, value.index, made)


def squared_factor(value: Function) -> float | None:
    """Factor of the values of which this is the square; None if it is no square."""
    factor = _factor(value.values, _POINTS**2)
    return factor**0.5 if factor is not None and factor > 0 else None


def _values(value: Rows | Function) -> Tensor:
    return value.values if isinstance(value, Function) else value.factor * _POINTS


def _factor(values: Tensor, known: Tensor) -> float | None:
    """Factor by which values are those of a known function; None if they are not."""
    factor = float(values @ known / (known @ known))
    if not factor or not ((values - factor * known).abs() <= _CLOSE * abs(factor) * (1 + known.abs())).all():
        return None
    # a half of twice a function is the function
    short = round(factor, 6)
    return short if abs(short - factor) <= 1e-9 * abs(factor) else factor
