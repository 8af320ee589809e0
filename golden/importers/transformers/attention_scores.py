"""Attention that a model computes by products and a softmax: what its scores are, checked element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ...transformer.blocks import SelfAttention
from ...transformer.builder import INPUTS
from ..graph import Constant, Place
from .row_graph import RowGraph, Rows

_HIDDEN = -1e4
"""Most that a mask adds where a token is hidden: its weight is then 0 in any float."""

_LARGEST_SCALE = 256.0


@dataclass(frozen=True, eq=False)
class Scores:
    """Products of queries and keys, and their softmax.

    Parameters
    ----------
    queries, keys : int
        Linear layers.
    heads, key_heads, width : int
    tokens : int
    index : Tensor of int64
        For each element its number in the order of samples, heads, queries and keys.
    scale : float
        Factor of the products.
    causal : bool
        Whether a mask hides later tokens.
    weights : bool
        Behind the softmax.
    """

    queries: int
    keys: int
    heads: int
    key_heads: int
    width: int
    tokens: int
    index: Tensor
    scale: float
    causal: bool = False
    weights: bool = False

    def scaled(self, place: Place, number: float) -> Scores:
        """Multiply by a number."""
        if self.weights:
            raise place.error("multiplies the softmax by a number")
        if self.causal:
            raise place.error("scales scores behind a mask")
        return replace(self, scale=self.scale * number)


def scores(graph: RowGraph, place: Place, queries: Rows, keys: Rows) -> Scores:
    """Multiply queries, (..., tokens, width), by keys, (..., width, tokens)."""
    first, second = _broadcast(place, queries, replace(keys, index=keys.index.transpose(-1, -2)))
    sample, wanted, tokens = _heads(graph, place, first)
    other, given, own = _heads(graph, place, second)
    if tokens != own or not torch.equal(sample, other):
        raise place.error("multiplies tokens of one sample by those of another")
    order, chosen = _of_one_sample(graph, place, sample, wanted)
    _, taken = _of_one_sample(graph, place, sample, given)
    key_heads, distinct = _shared(place, taken)
    heads, width = chosen.shape
    number = graph.gathered(place, first.number, chosen.reshape(-1))
    key_number = graph.gathered(place, second.number, distinct.reshape(-1))
    square = torch.arange(tokens * tokens).view(tokens, tokens)
    index = ((sample * heads + order) * tokens * tokens)[:, None, None] + square
    shape = (*first.index.shape[:-1], tokens)
    return Scores(
        number, key_number, heads, key_heads, width, tokens, index.reshape(shape), first.factor * second.factor
    )


def masked(place: Place, given: Scores, mask: Tensor) -> Scores:
    """Add a mask: none, or the one that hides later tokens."""
    try:
        spread = mask.float().broadcast_to(given.index.shape)
    except RuntimeError:
        raise place.error(f"has a mask of {tuple(mask.shape)} for scores of {tuple(given.index.shape)}") from None
    if (spread == 0).all():
        return given
    if given.weights:
        raise place.error("adds a constant behind the softmax")
    numbers, count = given.index.reshape(-1), given.index.numel()
    if not torch.equal(numbers.sort().values, torch.arange(count)):
        raise place.error("masks some of the scores, or some twice")
    values = torch.empty(count)
    values[numbers] = spread.reshape(-1)
    squares = values.view(-1, given.tokens, given.tokens)
    if not torch.equal(squares, squares[:1].expand_as(squares)):
        raise place.error("has a mask that differs from sample to sample or head to head")
    (hidden, seen), square = (torch.triu(torch.ones_like(squares[0]), 1) == one for one in (1, 0)), squares[0]
    if not (square[seen] == 0).all() or not (square[hidden] <= _HIDDEN).all():
        raise place.error("has a mask that is neither none nor the one that hides all later tokens")
    return replace(given, causal=True)


def hidden(place: Place, given: Scores, mask: Tensor, number: float) -> Scores:
    """Replace scores by a number where a mask is true, which hides them if it is low enough."""
    if mask.any() and not number <= _HIDDEN:
        raise place.error(f"replaces scores by {number:g}: only {_HIDDEN:g} and below hide a token from the softmax")
    return masked(place, given, torch.zeros(mask.shape).masked_fill(mask, number))


def not_a_number(place: Place, given: object) -> Constant:
    """Mask of zeros: the softmax, of which exporters ask this, is a number everywhere, as each token sees itself."""
    if not isinstance(given, Scores):
        raise place.error("asks which values are no numbers")
    return Constant(torch.zeros(given.index.shape, dtype=torch.bool))


def softmax(place: Place, given: Scores, dim: int) -> Scores:
    """Take the softmax over the keys."""
    if given.weights:
        raise place.error("is a second softmax")
    rows = given.index.movedim(dim, -1).reshape(-1, given.index.shape[dim])
    over_keys = rows.shape[1] == given.tokens and (rows % given.tokens == torch.arange(given.tokens)).all()
    if not over_keys or (rows // given.tokens != rows[:, :1] // given.tokens).any():
        raise place.error("is over another axis than that of the keys")
    return replace(given, weights=True)


def context(graph: RowGraph, place: Place, given: Scores, values: Rows) -> Rows:
    """Multiply the softmax, (..., tokens, tokens), by the values, (..., tokens, width)."""
    if not given.weights:
        raise place.error("multiplies scores without a softmax by values")
    if not 0 < given.scale < _LARGEST_SCALE:
        raise place.error(
            f"has scores times {given.scale:g}: a factor above 0 and below {_LARGEST_SCALE:g} is computed"
        )
    index, second = _same_leading(place, given.index, values)
    sample, taken, tokens = _heads(graph, place, second)
    square = torch.arange(given.tokens**2).view(given.tokens, given.tokens)
    flat = index.reshape(-1, *index.shape[-2:])
    whole = flat.shape[1:] == square.shape and (flat % given.tokens**2 == square).all()
    if not whole or tokens != given.tokens or second.factor != 1:
        raise place.error("multiplies values by weights of other tokens, or scaled ones")
    pair = flat[:, 0, 0] // given.tokens**2
    if not torch.equal(pair // given.heads, sample):
        raise place.error("multiplies weights of one sample by values of another")
    by_head: Tensor = torch.full((graph.batch, given.heads, taken.shape[1]), -1)
    by_head[sample, pair % given.heads] = taken
    if len(pair) != graph.batch * given.heads or (by_head < 0).any() or (by_head != by_head[:1]).any():
        raise place.error("does not multiply each head's weights by values of its own")
    key_heads, distinct = _shared(place, by_head[0])
    if key_heads != given.key_heads or distinct.shape[1] != given.width:
        raise place.error(
            f"has {key_heads} heads of {distinct.shape[1]} values for {given.key_heads} of {given.width} keys"
        )
    number = graph.gathered(place, second.number, distinct.reshape(-1))
    usual = given.width**-0.5
    scale = None if abs(given.scale - usual) <= 1e-6 * usual else given.scale
    operation = SelfAttention(given.heads, key_heads, given.width, given.causal, scale=scale)
    features = given.heads * given.width
    if len({graph.size(one)[0] for one in (given.queries, given.keys, number)}) != 1:
        raise place.error("has queries, keys and values of other tokens")
    made = graph.add(place, operation, given.queries, given.keys, number, features=features)
    rows = (pair // given.heads)[:, None] * tokens + torch.arange(tokens)
    found = (rows * features + (pair % given.heads)[:, None] * given.width)[..., None] + torch.arange(given.width)
    return Rows(made, found.reshape(*index.shape[:-1], given.width))


def attention(
    graph: RowGraph,
    place: Place,
    queries: Rows,
    keys: Rows,
    values: Rows,
    mask: Constant | None,
    causal: bool,
    scale: float | None,
) -> Rows:
    """Take attention that is one operator: queries, keys and values of (..., tokens, width)."""
    width = queries.index.shape[-1]
    found = scores(graph, place, queries, replace(keys, index=keys.index.transpose(-1, -2)))
    found = replace(found, scale=found.scale * (width**-0.5 if scale is None else scale))
    if mask is not None:
        tensor = mask.tensor
        if tensor.dtype == torch.bool:
            tensor = torch.zeros(tensor.shape).masked_fill(~tensor, -torch.inf)
        found = masked(place, found, tensor)
    found = replace(found, causal=found.causal or causal)
    return context(graph, place, softmax(place, found, -1), values)


def _heads(graph: RowGraph, place: Place, rows: Rows) -> tuple[Tensor, Tensor, int]:
    """Sample and features of each head of (..., tokens, width), and the tokens, which must be all in order."""
    if rows.number == INPUTS:
        raise place.error("is of samples, with no linear layer between")
    tokens, features = graph.size(rows.number)
    flat = rows.index.reshape(-1, *rows.index.shape[-2:])
    sample, feature = flat[:, 0, 0] // (tokens * features), flat[:, 0] % features
    expected = (sample[:, None] * tokens + torch.arange(tokens))[..., None] * features + feature[:, None]
    if flat.shape[1] != tokens or graph.nodes[rows.number].pooled or not torch.equal(flat, expected):
        raise place.error("is of tensors whose last two axes are not the tokens of one sample and features of a head")
    return sample, feature, tokens


def _of_one_sample(graph: RowGraph, place: Place, sample: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Number of each head within its sample, and the features of the heads, which are the same in all samples."""
    heads = len(sample) // graph.batch
    order = torch.empty_like(sample)
    for number in range(graph.batch):
        own = sample == number
        if int(own.sum()) != heads or not torch.equal(features[own], features[sample == 0]):
            raise place.error("has other heads in one sample than in another")
        order[own] = torch.arange(heads)
    return order, features[sample == 0]


def _shared(place: Place, features: Tensor) -> tuple[int, Tensor]:
    """Count the distinct heads of keys or values, each of which serves as many neighbouring heads, and list them."""
    heads = len(features)
    changes = (features[1:] != features[:-1]).any(1)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), 1 + changes.nonzero().flatten()])
    count = len(starts)
    even = heads % count == 0 and torch.equal(starts, torch.arange(0, heads, heads // count))
    if not even or len(torch.unique(features[starts], dim=0)) != count:
        raise place.error("has heads of queries that do not share those of keys and values evenly")
    return count, features[starts]


def _broadcast(place: Place, first: Rows, second: Rows) -> tuple[Rows, Rows]:
    index, other = _same_leading(place, first.index, second)
    return replace(first, index=index), other


def _same_leading(place: Place, index: Tensor, other: Rows) -> tuple[Tensor, Rows]:
    """Both with the leading axes to which a product broadcasts them."""
    try:
        leading = np.broadcast_shapes(index.shape[:-2], other.index.shape[:-2])
    except ValueError:
        raise place.error(f"is of {tuple(index.shape)} and {tuple(other.index.shape)}") from None
    wide = other.index.broadcast_to((*leading, *other.index.shape[-2:]))
    return index.broadcast_to((*leading, *index.shape[-2:])), replace(other, index=wide)
