"""A transformer's normal form in floats: what its integers are held against, and what its importers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Compute the outputs of all operations in float64.

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
    return [one.numpy() for one in run_tensors(network, tensors, inputs, lengths)]


def run_tensors(
    network: Transformer, tensors: Mapping[tuple[int, str], Tensor], rows: Tensor, lengths: tuple[int, ...]
) -> list[Tensor]:
    """Compute the outputs of all operations, as `run_float`, in the tensors' own type and with their gradients."""
    network.check_lengths(lengths)
    outputs = list[Tensor]()
    for number, (operation, reads) in enumerate(zip(network.operations, network.reads, strict=True)):
        given = [rows if read < 0 else outputs[read] for read in reads]
        own = {kind: tensors[number, kind] for kind in network.kinds[number]}
        match operation:
            case Linear():
                found = functional.linear(given[0], own["weight"], own.get("bias"))
            case Normalisation():
                normed = functional.layer_norm if operation.centred else functional.rms_norm
                found = normed(given[0], given[0].shape[1:], eps=operation.eps) * own["factor"] + own.get("bias", 0)
            case SelfAttention():
                found = _attention(operation, given, lengths)
            case Activation():
                found = activation(operation.kind, given[0])
            case Gate():
                found = given[0] * given[1]
            case Residual():
                found = given[0] + given[1]
            case Positions():
                found = given[0] + own["position"][torch.cat([torch.arange(length) for length in lengths])]
            case PoolTokens():
                found = torch.stack([_pooled(operation.kind, one) for one in torch.split(given[0], list(lengths))])
            case UnitLength():
                found = functional.normalize(given[0])
        outputs.append(found)
    return outputs


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
            queries, keys, values, is_causal=operation.causal, enable_gqa=operation.heads != operation.key_heads
        )
        found.append(mixed.transpose(1, 2).reshape(count * tokens, -1))
    return torch.cat(found)


def _rotated(rows: Tensor, base: float) -> Tensor:
    width = rows.shape[-1]
    angles = torch.arange(rows.shape[-2])[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    first, second = rows.chunk(2, dim=-1)
    turn = torch.polar(torch.ones_like(angles), angles)
    turned = torch.complex(first, second) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)
