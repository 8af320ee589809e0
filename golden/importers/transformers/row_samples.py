"""Samples as rows of tokens: patches of images, and tokens that a model joins to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from ...transformer.blocks import Linear, Positions
from ...transformer.builder import INPUTS
from ..graph import Constant, Place
from .row_graph import Node, RowGraph, Rows
from .row_operations import linear, plus


def convolution(
    graph: RowGraph,
    place: Place,
    rows: Rows,
    weight: Constant,
    bias: Constant | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> Rows:
    """Take a convolution of the samples as a linear layer of their patches.

    Parameters
    ----------
    place : Place
    rows : Rows
        (batch, channels, height, width), or of signals (batch, channels, length).
    weight : Constant
        (outputs, channels, height, width), or of signals (outputs, channels, length).
    bias : Constant, optional
    stride, padding, dilation : int or sequence of int
        One number, or one for each axis.
    """
    flat = rows.index.ndim == 3

    def pair(value: int | Sequence[int], other: int) -> tuple[int, int]:
        sides = [value] if isinstance(value, int) else [*value]
        return (other, sides[0]) if flat else (sides[0], sides[-1])

    settings = {"stride": pair(stride, 1), "padding": pair(padding, 0), "dilation": pair(dilation, 1)}
    if not flat:
        return _convolution(graph, place, rows, weight, bias, settings)
    wide, rows = replace(weight, tensor=weight.tensor[:, :, None]), replace(rows, index=rows.index[:, :, None])
    found = _convolution(graph, place, rows, wide, bias, settings)
    return replace(found, index=found.index[:, :, 0])


def _convolution(
    graph: RowGraph,
    place: Place,
    rows: Rows,
    weight: Constant,
    bias: Constant | None,
    settings: Mapping[str, tuple[int, int]],
) -> Rows:
    outputs, channels, *kernel = weight.tensor.shape
    if rows.number != INPUTS:
        if kernel == [1, 1] and settings == {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}:
            turned = replace(rows, index=rows.index.movedim(1, -1))
            found = linear(graph, place, turned, Constant(weight.tensor.flatten(1), weight.name), bias)
            return replace(found, index=found.index.movedim(-1, 1))
        raise place.error("is a convolution of what is no sample: only patches of the samples are read")
    if rows.factor != 1 or rows.index.shape[1] != channels:
        raise place.error("is a convolution of scaled samples, or in groups")
    if graph.places is not None:
        raise place.error("reads the samples in another form than what reads them first")
    # exact in float64; 0 is the padding
    numbers = torch.nn.functional.unfold((rows.index + 1).double(), (kernel[0], kernel[1]), **settings)
    patches = numbers.long().transpose(1, 2) - 1
    size = prod(graph.input_shape)
    there = patches[0] >= 0
    expected = torch.where(there, patches[0] + size * torch.arange(graph.batch)[:, None, None], -1)
    if not torch.equal(patches, expected):
        raise place.error("mixes the samples of a batch")
    graph.places = patches[0]
    tokens, features = graph.places.shape
    read = Rows(INPUTS, torch.arange(graph.batch * tokens * features).view(graph.batch, tokens, features))
    row, _ = graph.over_features(place, read)
    matrix = weight.tensor.reshape(outputs, features)
    number = graph.add(
        place,
        Linear(outputs, bias is not None),
        INPUTS,
        features=outputs,
        tensors={"weight": matrix, "bias": None if bias is None else bias.tensor},
        names={"weight": weight.name, "bias": bias.name if bias else ""},
    )
    index = (row[:, None] * outputs + torch.arange(outputs)).view(graph.batch, tokens, outputs).transpose(1, 2)
    sides = [
        (rows.index.shape[2 + at] + 2 * settings["padding"][at] - settings["dilation"][at] * (kernel[at] - 1) - 1)
        // settings["stride"][at]
        + 1
        for at in (0, 1)
    ]
    return Rows(number, index.reshape(graph.batch, outputs, *sides))


def joined(graph: RowGraph, place: Place, pieces: list[Rows | Constant], dim: int) -> Rows:
    """Put constant rows, such as a class token, before or behind the tokens of what comes from the samples."""
    given = [one for one in pieces if isinstance(one, Rows)]
    if len(given) != 1:
        raise place.error(f"joins {len(given)} tensors that depend on the samples")
    rows = graph.settled(place, given[0])
    tokens, features = graph.size(rows.number)
    numbers = torch.arange(graph.batch * tokens * features).view(graph.batch, tokens, features)
    if dim % rows.index.ndim != 1 or not torch.equal(rows.index, numbers):
        raise place.error("joins other axes than those of tokens")
    fixed: list[Tensor] = []
    new: list[int] = []
    at = first = 0
    for one in pieces:
        count = one.tensor.shape[1] if isinstance(one, Constant) else tokens
        if isinstance(one, Constant):
            if (one.tensor != one.tensor[:1]).any():
                raise place.error("joins a constant that differs from sample to sample")
            fixed.append(one.tensor[0].detach())
            new += range(at, at + count)
        else:
            first = at
        at += count
    number = _with_tokens(graph, place, rows.number, first, at - tokens - first)
    # what is there gives a token of zeros its bias alone
    node = graph.nodes[number] if number >= 0 else None
    base = torch.zeros(features)
    if node is not None and isinstance(node.operation, Linear):
        base = node.tensors.get("bias", base)
    elif node is not None and isinstance(before := _linear_before(graph, number), Node):
        base = before.tensors.get("bias", base)
    values = torch.zeros(at, features, dtype=fixed[0].dtype)
    values[new] = torch.cat(fixed) - base
    found = Rows(number, torch.arange(graph.batch * at * features).view(graph.batch, at, features))
    return plus(graph, place, found, Constant(values))


def _linear_before(graph: RowGraph, number: int) -> Node | None:
    (read,) = graph.nodes[number].reads
    return graph.nodes[read] if read >= 0 else None


def _with_tokens(graph: RowGraph, place: Place, number: int, before: int, behind: int) -> int:
    """Add the operations between samples and these outputs anew, for more tokens, which are zeros."""
    more = (0, 0, before, behind)
    if number == INPUTS:
        assert graph.places is not None, "settled"
        graph.places = torch.nn.functional.pad(graph.places, more, value=-1)
        return INPUTS
    node = graph.nodes[number]
    kinds = [type(graph.nodes[number].operation)]
    if node.reads[0] >= 0:
        kinds.append(type(graph.nodes[node.reads[0]].operation))
    if kinds not in ([Linear], [Positions], [Positions, Linear]) or (
        node.reads[0] >= 0 and graph.nodes[node.reads[0]].reads != (INPUTS,)
    ):
        raise place.error("joins tokens behind more than a linear layer and positions")
    read = _with_tokens(graph, place, node.reads[0], before, behind)
    tensors, operation = dict(node.tensors), node.operation
    if isinstance(operation, Positions):
        tensors["position"] = torch.nn.functional.pad(tensors["position"], more)
        operation = Positions(len(tensors["position"]))
    names = node.names if isinstance(operation, Linear) else {}
    return graph.add(node.place, operation, read, features=node.features, tensors=tensors, names=names)
