"""Functions of each value that a model writes by several operators: followed as values, and known by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...transformer.blocks import ActivationKind
from ..graph import Place
from .row_graph import RowGraph, Rows
from .row_operations import activation

_POINTS = torch.cat([torch.linspace(-12, 12, 1921), torch.tensor([-80.0, -40.0, -20.0, 20.0, 40.0, 80.0])]).double()
"""Arguments at which functions are compared: all that differ do so here."""
_CLOSE = 1e-6
"""Largest difference, relative to 1 + abs(x): constants of float32 and of ten digits are closer."""
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
