"""Sums, products and quotients in a user's transformer, by what their operands are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...models.importers.graph import Place
from . import composed
from .attention_scores import Scores, context, masked, scores
from .composed import Composed
from .row_graph import Constant, RowGraph, Rows
from .row_operations import gated, linear, plus, residual, times

Value = Constant | Rows | Scores | Composed | tuple["Value", ...]
"""Types that a tensor of a model can have."""


def rows_of(place: Place, value: Any) -> Rows:
    if not isinstance(value, Rows):
        kind = f"the {value.kind} of values" if isinstance(value, Composed) else "scores"
        raise place.error(f"reads {kind if not isinstance(value, Constant) else 'a constant'}, not outputs of a layer")
    return value


def product(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Matrix product: a linear layer, scores, or what attention gives."""
    if isinstance(first, Rows) and isinstance(second, Constant):
        if second.tensor.ndim != 2:
            raise place.error(f"has a weight of {tuple(second.tensor.shape)}, which is no matrix")
        return linear(graph, place, first, Constant(second.tensor.t(), second.name), None)
    if isinstance(first, Rows) and isinstance(second, Rows):
        return scores(graph, place, first, second)
    if isinstance(first, Scores) and isinstance(second, Rows):
        return context(graph, place, first, second)
    raise place.error("is a product that is neither a linear layer nor a part of attention")


def add(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Sum of two tensors, of one and a constant, or of scores and a mask."""
    if isinstance(first, int | float | Constant):
        first, second = second, first
    if isinstance(second, int | float):
        second = Constant(torch.tensor(float(second)))
    if isinstance(second, Constant):
        if isinstance(first, Scores):
            return masked(place, first, second.tensor)
        if isinstance(first, Composed):
            number = composed.number_of(second)
            if number is None:
                raise place.error(f"adds a tensor to a {first.kind}")
            return composed.plus_number(place, first, number)
        return plus(graph, place, rows_of(place, first), second)
    return residual(graph, place, rows_of(place, first), rows_of(place, second))


def multiply(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Product of two tensors, or of one and a constant."""
    if isinstance(first, int | float | Constant):
        first, second = second, first
    if isinstance(second, int | float):
        second = Constant(torch.tensor(float(second), dtype=torch.float64))
    if isinstance(second, Constant):
        number = composed.number_of(second)
        if isinstance(first, Rows):
            return times(graph, place, first, second)
        if number is None:
            raise place.error("multiplies scores or a part of a norm by a tensor")
        if isinstance(first, Composed):
            return composed.times_number(graph, place, first, number)
        assert isinstance(first, Scores), "the only other value that depends on the samples"
        if first.weights:
            raise place.error("multiplies the softmax by a number")
        if first.causal:
            raise place.error("scales scores behind a mask")
        return replace(first, scale=first.scale * number)
    if isinstance(first, Composed) and isinstance(second, Rows):
        first, second = second, first
    if isinstance(second, Composed) and isinstance(first, Rows | Composed):
        return composed.times(graph, place, first, second)
    return gated(graph, place, rows_of(place, first), rows_of(place, second))


def divide(graph: RowGraph, place: Place, first: Any, second: Any) -> Value:
    """Quotient of a tensor and a constant, or of parts of a norm."""
    if isinstance(second, Composed) and isinstance(first, Rows | Composed):
        return composed.over(graph, place, first, second)
    if isinstance(second, Constant) and not isinstance(first, Constant):
        return multiply(graph, place, first, Constant(1 / second.tensor.double()))
    if isinstance(second, int | float) and second:
        return multiply(graph, place, first, 1 / second)
    raise place.error("divides by what depends on the samples")


def einsum(graph: RowGraph, place: Place, equation: str, tensors: Sequence[Any]) -> Value:
    """Product of two tensors by the names of their axes."""
    left, arrow, wanted = equation.replace(" ", "").partition("->")
    names = left.split(",")
    if not arrow or len(names) != 2 or "." in left or any(len(set(one)) < len(one) for one in (*names, wanted)):
        raise place.error(f"{equation} is no product of two tensors with their axes by name")
    first, second = names
    leading = [one for one in wanted if one in first and one in second]
    rows = [one for one in first if one not in second]
    columns = [one for one in second if one not in first]
    inner = [one for one in first if one in second and one not in wanted]
    if sorted(wanted) != sorted([*leading, *rows, *columns]):
        raise place.error(f"{equation} sums over an axis of one tensor alone")

    def turned(value: Any, own: str, before: list[str], behind: list[str]) -> Any:
        def turn(tensor: Tensor) -> Tensor:
            wide = tensor.permute([own.index(one) for one in (*leading, *before, *behind)])
            at = len(leading)
            return wide.flatten(at, at + len(before) - 1).flatten(at + 1)

        if isinstance(value, Constant):
            return replace(value, tensor=turn(value.tensor))
        return replace(value, index=turn(value.index))

    if not (rows and columns and inner):
        raise place.error(f"{equation} is no matrix product")
    sizes = {
        one: size
        for own, value in zip(names, tensors, strict=True)
        for one, size in zip(own, _shape(value), strict=True)
    }
    found: Any = product(
        graph, place, turned(tensors[0], first, rows, inner), turned(tensors[1], second, inner, columns)
    )
    order = [*leading, *rows, *columns]
    index = found.index.reshape([sizes[one] for one in order]).permute([order.index(one) for one in wanted])
    made: Value = replace(found, index=index)
    return made


def _shape(value: Any) -> torch.Size:
    return value.tensor.shape if isinstance(value, Constant) else value.index.shape
