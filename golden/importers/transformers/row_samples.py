"""Samples as rows of tokens: patches of images, and constant tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from ...transformer.blocks import Linear, Positions
from ...transformer.builder import INPUTS
from ..graph import Constant, Place
from .row_graph import Node, RowGraph, RowTensor
from .row_operations import linear, plus


def convolution(
    graph: RowGraph,
    place: Place,
    rows: RowTensor,
    weight: Constant,
    bias: Constant | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> RowTensor:
    """Convolution of the samples as a linear layer of their patches.

    Parameters
    ----------
    rows : RowTensor
        (batch, channels, height, width), or signals (batch, channels, length).
    weight : Constant
        (outputs, channels, height, width), or for signals (outputs, channels, length).
    stride, padding, dilation : int or sequence of int
        A number, or a number per axis.
    """
    flat = rows.index.ndim == 3

    def pair(value: int | Sequence[int], other: int) -> tuple[int, int]:
        sides = [value] if isinstance(value, int) else [*value]
        return (other, sides[0]) if flat else (sides[0], sides[-1])

    settings = {"stride": pair(stride, 1), "padding": pair(padding, 0), "dilation": pair(dilation, 1)}
    if not flat:
        return _convolution(graph, place, rows, weight, bias, settings)
    wide, rows = replace(weight, tensor=weight.tensor[:, :, None]), replace(rows, index=rows.index[:, :, None])
    layer = _convolution(graph, place, rows, wide, bias, settings)
    return replace(layer, index=layer.index[:, :, 0])


def _convolution(
    graph: RowGraph,
    place: Place,
    rows: RowTensor,
    weight: Constant,
    bias: Constant | None,
    settings: Mapping[str, tuple[int, int]],
) -> RowTensor:
    outputs, channels, *kernel = weight.tensor.shape
    if rows.number != INPUTS:
        if kernel == [1, 1] and settings == {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}:
            turned = replace(rows, index=rows.index.movedim(1, -1))
            layer = linear(graph, place, turned, Constant(weight.tensor.flatten(1), weight.name), bias)
            return replace(layer, index=layer.index.movedim(-1, 1))
        raise place.error("is a convolution of what is no sample: only patches of the samples are read")
    if rows.factor != 1 or rows.index.shape[1] != channels:
        raise place.error("is a convolution of scaled samples, or in groups")
    if graph.places is not None:
        raise place.error("reads the samples in another form than what reads them first")
    # exact in float64; index 0 marks padding
    numbers = torch.nn.functional.unfold((rows.index + 1).double(), (kernel[0], kernel[1]), **settings)
    patches = numbers.long().transpose(1, 2) - 1
    size = prod(graph.input_shape)
    is_value = patches[0] >= 0
    expected = torch.where(is_value, patches[0] + size * torch.arange(graph.batch)[:, None, None], -1)
    if not torch.equal(patches, expected):
        raise place.error("mixes the samples of a batch")
    graph.places = patches[0]
    tokens, features = graph.places.shape
    read = RowTensor(INPUTS, torch.arange(graph.batch * tokens * features).view(graph.batch, tokens, features))
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
        (
            rows.index.shape[2 + axis]
            + 2 * settings["padding"][axis]
            - settings["dilation"][axis] * (kernel[axis] - 1)
            - 1
        )
        // settings["stride"][axis]
        + 1
        for axis in (0, 1)
    ]
    return RowTensor(number, index.reshape(graph.batch, outputs, *sides))


def joined(graph: RowGraph, place: Place, pieces: list[RowTensor | Constant], dim: int) -> RowTensor:
    """Concatenation of constant rows, as of a class token, before or after the tokens of a sample."""
    dependent = [piece for piece in pieces if isinstance(piece, RowTensor)]
    if len(dependent) != 1:
        raise place.error(f"joins {len(dependent)} tensors that depend on the samples")
    rows = graph.settled(place, dependent[0])
    tokens, features = graph.size(rows.number)
    numbers = torch.arange(graph.batch * tokens * features).view(graph.batch, tokens, features)
    if dim % rows.index.ndim != 1 or not torch.equal(rows.index, numbers):
        raise place.error("joins other axes than those of tokens")
    fixed: list[Tensor] = []
    new: list[int] = []
    position = first = 0
    for piece in pieces:
        count = piece.tensor.shape[1] if isinstance(piece, Constant) else tokens
        if isinstance(piece, Constant):
            if (piece.tensor != piece.tensor[:1]).any():
                raise place.error("joins a constant that differs from sample to sample")
            fixed.append(piece.tensor[0].detach())
            new += range(position, position + count)
        else:
            first = position
        position += count
    number = _with_tokens(graph, place, rows.number, first, position - tokens - first)
    # a token of zeros gets only the bias of a preceding linear layer
    node = graph.nodes[number] if number >= 0 else None
    base = torch.zeros(features)
    if node is not None and isinstance(node.operation, Linear):
        base = node.tensors.get("bias", base)
    elif node is not None and isinstance(before := _linear_before(graph, number), Node):
        base = before.tensors.get("bias", base)
    values = torch.zeros(position, features, dtype=fixed[0].dtype)
    values[new] = torch.cat(fixed) - base
    rows_with_tokens = RowTensor(
        number, torch.arange(graph.batch * position * features).view(graph.batch, position, features)
    )
    return plus(graph, place, rows_with_tokens, Constant(values))


def _linear_before(graph: RowGraph, number: int) -> Node | None:
    (read,) = graph.nodes[number].reads
    return graph.nodes[read] if read >= 0 else None


def _with_tokens(graph: RowGraph, place: Place, number: int, before: int, after: int) -> int:
    """Repeat the operations between samples and these outputs with more tokens of zeros."""
    more = (0, 0, before, after)
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
    read = _with_tokens(graph, place, node.reads[0], before, after)
    tensors, operation = dict(node.tensors), node.operation
    if isinstance(operation, Positions):
        tensors["position"] = torch.nn.functional.pad(tensors["position"], more)
        operation = Positions(len(tensors["position"]))
    names = node.names if isinstance(operation, Linear) else {}
    return graph.add(node.place, operation, read, features=node.features, tensors=tensors, names=names)
