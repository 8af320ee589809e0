"""Attention from products and a softmax of a model, with scores checked element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ...transformer.blocks import SelfAttention
from ...transformer.builder import INPUTS
from ..graph import Constant, Place
from .row_graph import RowGraph, RowTensor

_HIDDEN = -1e4
"""Largest addend of a mask for a hidden token: the token's weight is then 0 in any float."""

_LARGEST_SCALE = 256.0


@dataclass(frozen=True, eq=False)
class Scores:
    """Products of queries and keys, and their softmax.

    Parameters
    ----------
    queries, keys : int
        Linear layers.
    index : Tensor of int64
        Number of each element, counted over samples, heads, queries and keys.
    scale : float
        Factor of the products.
    causal : bool
        True if a mask hides later tokens.
    weights : bool
        True after the softmax.
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
        """Scores times a number."""
        if self.weights:
            raise place.error("multiplies the softmax by a number")
        if self.causal:
            raise place.error("scales scores behind a mask")
        return replace(self, scale=self.scale * number)


def scores(graph: RowGraph, place: Place, queries: RowTensor, keys: RowTensor) -> Scores:
    """Products of queries (..., tokens, width) and keys (..., width, tokens)."""
    first, second = _broadcast(place, queries, replace(keys, index=keys.index.transpose(-1, -2)))
    sample, query_features, tokens = _heads(graph, place, first)
    key_sample, key_features, key_tokens = _heads(graph, place, second)
    if tokens != key_tokens or not torch.equal(sample, key_sample):
        raise place.error("multiplies tokens of one sample by those of another")
    order, chosen = _of_one_sample(graph, place, sample, query_features)
    _, taken = _of_one_sample(graph, place, sample, key_features)
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


def masked(place: Place, scored: Scores, mask: Tensor) -> Scores:
    """Scores plus a mask, which is 0 or hides exactly the later tokens."""
    try:
        spread = mask.float().broadcast_to(scored.index.shape)
    except RuntimeError:
        raise place.error(f"has a mask of {tuple(mask.shape)} for scores of {tuple(scored.index.shape)}") from None
    if (spread == 0).all():
        return scored
    if scored.weights:
        raise place.error("adds a constant behind the softmax")
    numbers, count = scored.index.reshape(-1), scored.index.numel()
    if not torch.equal(numbers.sort().values, torch.arange(count)):
        raise place.error("masks some of the scores, or some twice")
    values = torch.empty(count)
    values[numbers] = spread.reshape(-1)
    squares = values.view(-1, scored.tokens, scored.tokens)
    if not torch.equal(squares, squares[:1].expand_as(squares)):
        raise place.error("has a mask that differs from sample to sample or head to head")
    (hidden, seen), square = (torch.triu(torch.ones_like(squares[0]), 1) == bound for bound in (1, 0)), squares[0]
    if not (square[seen] == 0).all() or not (square[hidden] <= _HIDDEN).all():
        raise place.error("has a mask that is neither none nor the one that hides all later tokens")
    return replace(scored, causal=True)


def hidden(place: Place, scored: Scores, mask: Tensor, number: float) -> Scores:
    """Scores replaced by a number where a mask is true; the number must be low enough to hide them."""
    if mask.any() and not number <= _HIDDEN:
        raise place.error(f"replaces scores by {number:g}: only {_HIDDEN:g} and below hide a token from the softmax")
    return masked(place, scored, torch.zeros(mask.shape).masked_fill(mask, number))


def not_a_number(place: Place, value: object) -> Constant:
    """Mask of zeros for the test of the softmax for NaN, which cannot occur: each token sees itself."""
    if not isinstance(value, Scores):
        raise place.error("asks which values are no numbers")
    return Constant(torch.zeros(value.index.shape, dtype=torch.bool))


def softmax(place: Place, scored: Scores, dim: int) -> Scores:
    """Softmax over the keys."""
    if scored.weights:
        raise place.error("is a second softmax")
    rows = scored.index.movedim(dim, -1).reshape(-1, scored.index.shape[dim])
    over_keys = rows.shape[1] == scored.tokens and (rows % scored.tokens == torch.arange(scored.tokens)).all()
    if not over_keys or (rows // scored.tokens != rows[:, :1] // scored.tokens).any():
        raise place.error("is over another axis than that of the keys")
    return replace(scored, weights=True)


def context(graph: RowGraph, place: Place, scored: Scores, values: RowTensor) -> RowTensor:
    """Product of the softmax (..., tokens, tokens) and the values (..., tokens, width)."""
    if not scored.weights:
        raise place.error("multiplies scores without a softmax by values")
    if not 0 < scored.scale < _LARGEST_SCALE:
        raise place.error(
            f"has scores times {scored.scale:g}: a factor above 0 and below {_LARGEST_SCALE:g} is computed"
        )
    index, second = _same_leading(place, scored.index, values)
    sample, taken, tokens = _heads(graph, place, second)
    square = torch.arange(scored.tokens**2).view(scored.tokens, scored.tokens)
    flat = index.reshape(-1, *index.shape[-2:])
    whole = flat.shape[1:] == square.shape and (flat % scored.tokens**2 == square).all()
    if not whole or tokens != scored.tokens or second.factor != 1:
        raise place.error("multiplies values by weights of other tokens, or scaled ones")
    pair = flat[:, 0, 0] // scored.tokens**2
    if not torch.equal(pair // scored.heads, sample):
        raise place.error("multiplies weights of one sample by values of another")
    by_head: Tensor = torch.full((graph.batch, scored.heads, taken.shape[1]), -1)
    by_head[sample, pair % scored.heads] = taken
    if len(pair) != graph.batch * scored.heads or (by_head < 0).any() or (by_head != by_head[:1]).any():
        raise place.error("does not multiply each head's weights by values of its own")
    key_heads, distinct = _shared(place, by_head[0])
    if key_heads != scored.key_heads or distinct.shape[1] != scored.width:
        raise place.error(
            f"has {key_heads} heads of {distinct.shape[1]} values for {scored.key_heads} of {scored.width} keys"
        )
    number = graph.gathered(place, second.number, distinct.reshape(-1))
    default_scale = scored.width**-0.5
    scale = None if abs(scored.scale - default_scale) <= 1e-6 * default_scale else scored.scale
    operation = SelfAttention(scored.heads, key_heads, scored.width, scored.causal, scale=scale)
    features = scored.heads * scored.width
    if len({graph.size(layer)[0] for layer in (scored.queries, scored.keys, number)}) != 1:
        raise place.error("has queries, keys and values of other tokens")
    operation_number = graph.add(place, operation, scored.queries, scored.keys, number, features=features)
    rows = (pair // scored.heads)[:, None] * tokens + torch.arange(tokens)
    features_read = (rows * features + (pair % scored.heads)[:, None] * scored.width)[..., None] + torch.arange(
        scored.width
    )
    return RowTensor(operation_number, features_read.reshape(*index.shape[:-1], scored.width))


def attention(
    graph: RowGraph,
    place: Place,
    queries: RowTensor,
    keys: RowTensor,
    values: RowTensor,
    mask: Constant | None,
    causal: bool,
    scale: float | None,
) -> RowTensor:
    """Attention as a single operator: queries, keys and values of (..., tokens, width)."""
    width = queries.index.shape[-1]
    scored = scores(graph, place, queries, replace(keys, index=keys.index.transpose(-1, -2)))
    scored = replace(scored, scale=scored.scale * (width**-0.5 if scale is None else scale))
    if mask is not None:
        tensor = mask.tensor
        if tensor.dtype == torch.bool:
            tensor = torch.zeros(tensor.shape).masked_fill(~tensor, -torch.inf)
        scored = masked(place, scored, tensor)
    scored = replace(scored, causal=scored.causal or causal)
    return context(graph, place, softmax(place, scored, -1), values)


def _heads(graph: RowGraph, place: Place, rows: RowTensor) -> tuple[Tensor, Tensor, int]:
    """Sample and features of each head of (..., tokens, width), and the number of tokens, complete and in order."""
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
    """Number of each head within a sample, and the features of the heads, equal in all samples."""
    heads = len(sample) // graph.batch
    order = torch.empty_like(sample)
    for number in range(graph.batch):
        of_sample = sample == number
        if int(of_sample.sum()) != heads or not torch.equal(features[of_sample], features[sample == 0]):
            raise place.error("has other heads in one sample than in another")
        order[of_sample] = torch.arange(heads)
    return order, features[sample == 0]


def _shared(place: Place, features: Tensor) -> tuple[int, Tensor]:
    """Number and list of distinct heads of keys or values; each serves equally many neighbouring heads."""
    heads = len(features)
    changes = (features[1:] != features[:-1]).any(1)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), 1 + changes.nonzero().flatten()])
    count = len(starts)
    even = heads % count == 0 and torch.equal(starts, torch.arange(0, heads, heads // count))
    if not even or len(torch.unique(features[starts], dim=0)) != count:
        raise place.error("has heads of queries that do not share those of keys and values evenly")
    return count, features[starts]


def _broadcast(place: Place, first: RowTensor, second: RowTensor) -> tuple[RowTensor, RowTensor]:
    index, other = _same_leading(place, first.index, second)
    return replace(first, index=index), other


def _same_leading(place: Place, index: Tensor, other: RowTensor) -> tuple[Tensor, RowTensor]:
    """Both operands with broadcast leading axes."""
    try:
        leading = np.broadcast_shapes(index.shape[:-2], other.index.shape[:-2])
    except ValueError:
        raise place.error(f"is of {tuple(index.shape)} and {tuple(other.index.shape)}") from None
    wide = other.index.broadcast_to((*leading, *other.index.shape[-2:]))
    return index.broadcast_to((*leading, *index.shape[-2:])), replace(other, index=wide)
