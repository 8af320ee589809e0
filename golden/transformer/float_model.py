"""A transformer's normal form in floats: what its integers are held against, and what its importers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .blocks import (
    Activation,
    ActivationKind,
    Gate,
    Linear,
    Normalisation,
    Parameters,
    PoolKind,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)
from .builder import INPUTS

_ACTIVATIONS: dict[ActivationKind, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "relu-squared": lambda x: functional.relu(x).square(),
    "silu": functional.silu,
}


def activation(kind: ActivationKind, values: Tensor) -> Tensor:
    """Compute an activation of floats."""
    return _ACTIVATIONS[kind](values)


def run_float(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> list[NDArray[np.float64]]:
    """Compute the outputs of all operations in float64, see `float_outputs`."""
    return [found for _, found in float_outputs(network, parameters, rows, lengths)]


def last_float(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> NDArray[np.float64]:
    """Compute the outputs of the last operation in float64, and keep no others."""
    for _, found in float_outputs(network, parameters, rows, lengths):
        last = found
    return last


def float_outputs(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Compute the outputs of one operation after the other in float64; each is dropped behind its last reader.

    Parameters
    ----------
    network : Transformer
    parameters : mapping
    rows : array of float, (tokens of all sentences, features)
    lengths : tuple of int
        Tokens of each sentence: there is no padding.

    Raises
    ------
    UserError
        If a sentence is empty or longer than the positions.
    """
    tensors = {name: torch.from_numpy(np.asarray(one, np.float64)) for name, one in parameters.items()}
    inputs = torch.from_numpy(np.asarray(rows, np.float64))
    for number, found in tensor_outputs(network, tensors, inputs, lengths):
        yield number, found.numpy()


def run_tensors(
    network: Transformer, tensors: Mapping[tuple[int, str], Tensor], rows: Tensor, lengths: tuple[int, ...]
) -> Tensor:
    """Compute the outputs of the last operation, in the tensors' own type and with their gradients."""
    for _, found in tensor_outputs(network, tensors, rows, lengths):
        last = found
    return last


def tensor_outputs(
    network: Transformer,
    tensors: Mapping[tuple[int, str], Tensor],
    inputs: Tensor,
    lengths: tuple[int, ...],
    first: int = 0,
) -> Iterator[tuple[int, Tensor]]:
    """Compute the outputs of one operation after the other in PyTorch, as `float_outputs`, from the first one on.

    Where that is another one than 0, the inputs are those outputs that pass there, see `Transformer.crossing`.
    """
    network.check_lengths(lengths)
    last_reader = {read: number for number, reads in enumerate(network.reads) for read in reads}
    outputs = {network.crossing(first) if first else INPUTS: inputs}
    for number, reads in list(enumerate(network.reads))[first:]:
        found = _output(network, number, [outputs[read] for read in reads], tensors, lengths)
        outputs[number] = found
        for read in set(reads):
            if last_reader[read] == number:
                del outputs[read]
        yield number, found


def _output(
    network: Transformer,
    number: int,
    given: list[Tensor],
    tensors: Mapping[tuple[int, str], Tensor],
    lengths: tuple[int, ...],
) -> Tensor:
    """Outputs of one operation."""
    own = {kind: tensors[number, kind] for kind in network.kinds[number]}
    operation = network.operations[number]
    match operation:
        case Linear():
            return functional.linear(given[0], own["weight"], own.get("bias"))
        case Normalisation():
            normed = functional.layer_norm if operation.centred else functional.rms_norm
            return normed(given[0], given[0].shape[1:], eps=operation.eps) * own["factor"] + own.get("bias", 0)
        case SelfAttention():
            return _attention(operation, given, lengths)
        case Activation():
            return activation(operation.kind, given[0])
        case Gate():
            return given[0] * given[1]
        case Residual():
            return given[0] + given[1]
        case Positions():
            return given[0] + own["position"][torch.cat([torch.arange(length) for length in lengths])]
        case PoolTokens():
            return torch.stack([_pooled(operation.kind, one) for one in torch.split(given[0], list(lengths))])
        case UnitLength():
            return functional.normalize(given[0])


def _pooled(kind: PoolKind, rows: Tensor) -> Tensor:
    return rows.mean(0) if kind == "mean" else rows[0 if kind == "first" else -1]


def _attention(operation: SelfAttention, given: list[Tensor], lengths: tuple[int, ...]) -> Tensor:
    """Attention of sentences, neighbours of one length at once."""
    found = []
    groups = [(len([*same]), tokens) for tokens, same in groupby(lengths)]
    parts = (torch.split(one, [count * tokens for count, tokens in groups]) for one in given)
    for (count, tokens), *group in zip(groups, *parts, strict=True):
        # (sentences, heads, tokens, width)
        queries, keys, values = (one.reshape(count, tokens, -1, operation.width).transpose(1, 2) for one in group)
        if operation.rotary_base is not None:
            queries, keys = (_rotated(one, operation.rotary_base) for one in (queries, keys))
        mixed = functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            is_causal=operation.causal,
            enable_gqa=operation.heads != operation.key_heads,
            scale=operation.scale,
        )
        found.append(mixed.transpose(1, 2).reshape(count * tokens, -1))
    return torch.cat(found)


@lru_cache
def _turns(tokens: int, width: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of each position, which all layers and sentences share."""
    angles = torch.arange(tokens)[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return angles.cos(), angles.sin()


def _rotated(rows: Tensor, base: float) -> Tensor:
    first, second = rows.chunk(2, dim=-1)
    cosine, sine = (one.to(rows) for one in _turns(rows.shape[-2], rows.shape[-1], base))
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
