"""Operations of a transformer on tensors of a `RowGraph`, each checked against the normal form."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...transformer.blocks import (
    Activation,
    ActivationKind,
    Gate,
    Linear,
    Normalisation,
    PoolTokens,
    Positions,
    Residual,
    UnitLength,
)
from ..graph import Constant, Place
from .row_graph import RowGraph, RowTensor


def linear(graph: RowGraph, place: Place, rows: RowTensor, weight: Constant, bias: Constant | None) -> RowTensor:
    """Linear layer over the last axis; weight (outputs, inputs)."""
    rows = graph.settled(place, rows)
    row, feature = graph.over_features(place, rows)
    if weight.tensor.ndim != 2 or weight.tensor.shape[1] != len(feature):
        raise place.error(f"has a weight of {tuple(weight.tensor.shape)} for {len(feature)} features")
    outputs, matrix = len(weight.tensor), torch.empty_like(weight.tensor)
    matrix[:, feature] = weight.tensor
    added = None if bias is None else bias.tensor.reshape(-1)
    if added is not None and added.numel() != outputs:
        raise place.error(f"has a bias of {added.numel()} values for {outputs} outputs")
    number = graph.add(
        place,
        Linear(outputs, added is not None),
        rows.number,
        features=outputs,
        tensors={"weight": matrix, "bias": added},
        names={"weight": weight.name, "bias": bias.name if bias else ""},
    )
    index = row[:, None] * outputs + torch.arange(outputs)
    return RowTensor(number, index.reshape(*rows.index.shape[:-1], outputs))


def norm(
    graph: RowGraph,
    place: Place,
    rows: RowTensor,
    factor: Constant | None,
    bias: Constant | None,
    eps: float,
    centred: bool = True,
    axes: int = 1,
) -> RowTensor:
    """Layer or RMS norm over the last axis.

    A norm after the pooling of a sum's first or last token moves before the pooling.
    """
    rows = graph.settled(place, rows)
    if axes != 1:
        raise place.error(f"is over the last {axes} axes, not over the features alone")
    if not 0 <= eps < 1:
        raise place.error(f"adds {eps:g} to the mean square: 0 or more and less than 1 is known")
    _, feature = graph.over_features(place, rows)
    factors = Constant(torch.ones(len(feature))) if factor is None else factor
    tensors, names = {}, {}
    for kind, constant in (("factor", factors), ("bias", bias)):
        if constant is not None:
            values = constant.tensor.reshape(-1)
            if values.numel() != len(feature):
                raise place.error(f"has a {kind} of {values.numel()} values for {len(feature)} features")
            tensors[kind] = torch.empty_like(values)
            tensors[kind][feature] = values
            names[kind] = constant.name
    operation = Normalisation(centred, eps, bias is not None)
    node = graph.nodes[rows.number] if rows.number >= 0 else None
    pool = node.operation if node is not None else None
    if node is None or not isinstance(pool, PoolTokens) or not _is_sum(graph, node.reads[0]):
        return replace(rows, number=graph.add(place, operation, rows.number, tensors=tensors, names=names))
    # a sum has more bits than a pool can read; a norm's output has fewer
    if pool.kind == "mean":
        raise place.error("is behind the mean of a sum's tokens, which has no hardware: take it of each token, before")
    number = graph.add(place, operation, *node.reads, tensors=tensors, names=names)
    return replace(rows, number=graph.add(node.place, pool, number, pooled=True))


def _is_sum(graph: RowGraph, number: int) -> bool:
    return number >= 0 and isinstance(graph.nodes[number].operation, Residual | Positions)


def activation(graph: RowGraph, place: Place, rows: RowTensor, kind: ActivationKind) -> RowTensor:
    """Function of each value."""
    rows = graph.settled(place, rows)
    return replace(rows, number=graph.add(place, Activation(kind), rows.number))


def residual(graph: RowGraph, place: Place, first: RowTensor, second: RowTensor) -> RowTensor:
    """Sum of two tensors."""
    return _both(graph, place, Residual(), first, second)


def gated(graph: RowGraph, place: Place, first: RowTensor, second: RowTensor) -> RowTensor:
    """Product of two tensors."""
    return _both(graph, place, Gate(), first, second)


def is_relu(graph: RowGraph, rows: RowTensor) -> bool:
    return rows.number >= 0 and graph.nodes[rows.number].operation == Activation("relu")


def squared(graph: RowGraph, place: Place, rows: RowTensor) -> RowTensor:
    """Square of a ReLU, as a single function."""
    node = graph.nodes[rows.number]
    number = graph.add(place, Activation("relu-squared"), *node.reads)
    return RowTensor(number, rows.index, rows.factor**2)


def _both(graph: RowGraph, place: Place, operation: Gate | Residual, first: RowTensor, second: RowTensor) -> RowTensor:
    left, right = graph.settled(place, first), graph.settled(place, second)
    sizes = [(*graph.size(each.number), graph.is_pooled(each.number)) for each in (left, right)]
    if sizes[0] != sizes[1] or not torch.equal(left.index, right.index):
        shapes = " and ".join(str(tuple(each.index.shape[1:])) for each in (first, second))
        raise place.error(f"is of values of {shapes}, which are not the same tokens and features in one order")
    return replace(left, number=graph.add(place, operation, left.number, right.number))


def pooled(graph: RowGraph, place: Place, rows: RowTensor, dims: list[int], keep: bool) -> RowTensor:
    """Mean of all tokens over these axes."""
    rows = graph.settled(place, rows)
    tokens, features = graph.size(rows.number)
    over = sorted(axis % rows.index.ndim for axis in dims)
    others = [axis for axis in range(rows.index.ndim) if axis not in over]
    flat = rows.index.permute(*others, *over).flatten(len(others)) if over else rows.index[..., None]
    token = flat // features % tokens
    same = (flat - token * features == (flat - token * features)[..., :1]).all()
    if graph.is_pooled(rows.number) or flat.shape[-1] != tokens or not same:
        raise place.error(f"is a mean over {dims}, which are not a sample's tokens, all of them")
    number = graph.once((rows.number, "mean"), place, PoolTokens("mean"), rows.number, pooled=True)
    first = (flat - token * features)[..., 0]
    index = first // (tokens * features) * features + first % features
    for axis in over if keep else ():
        index = index.unsqueeze(axis)
    return RowTensor(number, index)


def unit_length(graph: RowGraph, place: Place, rows: RowTensor) -> RowTensor:
    """Quotient by the L2 norm of the last axis."""
    rows = graph.settled(place, rows)
    graph.over_features(place, rows)
    return replace(rows, number=graph.add(place, UnitLength(), rows.number))


def plus(graph: RowGraph, place: Place, rows: RowTensor, constant: Constant) -> RowTensor:
    """Sum with a constant: the bias of a linear layer, or learned positions."""
    rows = graph.settled(place, rows)
    values = _spread(graph, place, rows, constant)
    node = graph.nodes[rows.number] if rows.number >= 0 else None
    each = bool((values == values[:1]).all())
    operation_before = node.operation if node is not None else None
    if (
        isinstance(operation_before, Linear | Normalisation)
        and each
        and (graph.is_pooled(rows.number) or constant.tensor.ndim < 2)
    ):
        assert node is not None, "has an operation"
        before = node.tensors.get("bias")
        tensors = {**node.tensors, "bias": values[0] if before is None else before + values[0]}
        names = {**node.names, "bias": constant.name if before is None else ""}
        operation = replace(operation_before, bias=True)
        return replace(rows, number=graph.instead(node, operation, tensors, names))
    if graph.is_pooled(rows.number):
        raise place.error("adds a constant to what no linear layer or norm gives, behind the pooling")
    name, read = constant.name, rows.number
    if node is not None and isinstance(node.operation, Positions):
        # positions of a class token are 0 for all other tokens: both sets add up
        values, name, (read,) = values + node.tensors["position"], "", node.reads
    number = graph.add(place, Positions(len(values)), read, tensors={"position": values}, names={"position": name})
    return replace(rows, number=number)


def times(graph: RowGraph, place: Place, rows: RowTensor, constant: Constant) -> RowTensor:
    """Product with a constant: a number, or a factor for each output of a linear layer or norm."""
    if constant.tensor.numel() == 1 and constant.tensor.ndim <= rows.index.ndim:
        return replace(rows, factor=rows.factor * float(constant.tensor))
    rows = graph.settled(place, rows)
    values = _spread(graph, place, rows, constant)
    node = graph.nodes[rows.number] if rows.number >= 0 else None
    if node is None or not isinstance(node.operation, Linear | Normalisation) or (values != values[:1]).any():
        raise place.error("is a product with a constant: of a linear layer's or norm's features alone")
    tensors = {kind: _rowwise(tensor, values[0]) for kind, tensor in node.tensors.items()}
    return replace(rows, number=graph.instead(node, node.operation, tensors, {}))


def _spread(graph: RowGraph, place: Place, rows: RowTensor, constant: Constant) -> Tensor:
    """Values of a constant for each token and feature of an operation's outputs."""
    tokens, features = graph.size(rows.number)
    try:
        values = constant.tensor.detach().broadcast_to(rows.index.shape)
    except RuntimeError:
        shapes = f"{tuple(constant.tensor.shape)} and {tuple(rows.index.shape)}"
        raise place.error(f"is of a constant and values of {shapes}") from None
    flat = torch.empty(rows.index.numel(), dtype=values.dtype)
    flat[rows.index.reshape(-1)] = values.reshape(-1).cpu()
    spread = flat.view(graph.batch, tokens, features)
    if (spread != spread[:1]).any():
        raise place.error("is of a constant that differs from sample to sample")
    return spread[0]


def _rowwise(tensor: Tensor, factors: Tensor) -> Tensor:
    return tensor * (factors[:, None] if tensor.ndim == 2 else factors)
