"""Norms that a model computes by several operators, and division by the length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isclose
from typing import Literal

import torch
from torch import Tensor

from ..graph import Constant, Place
from .functions import Function, applied, of_one, squared_factor
from .row_graph import RowGraph, Rows
from .row_operations import is_relu, norm, squared, unit_length

_CLOSE = 1e-6
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
