"""Transformer in floats: reference of the integer model and of the importers."""

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
    return _ACTIVATIONS[kind](values)


def run_float(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> list[NDArray[np.float64]]:
    """Outputs of all operations in float64, see `float_outputs`."""
    return [outputs for _, outputs in float_outputs(network, parameters, rows, lengths)]


def last_float(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> NDArray[np.float64]:
    """Outputs of the last operation in float64, see `float_outputs`."""
    for _, outputs in float_outputs(network, parameters, rows, lengths):
        last = outputs
    return last


def float_outputs(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Number and outputs, in float64, of each operation; outputs are freed after their last reader.

    `rows` are (tokens of all sentences, features), `lengths` the tokens of each sentence, without padding. Raises
    `UserError` if a sentence is empty or longer than the positions.
    """
    tensors = {name: torch.from_numpy(np.asarray(tensor, np.float64)) for name, tensor in parameters.items()}
    inputs = torch.from_numpy(np.asarray(rows, np.float64))
    for number, outputs in tensor_outputs(network, tensors, inputs, lengths):
        yield number, outputs.numpy()


def run_tensors(
    network: Transformer, tensors: Mapping[tuple[int, str], Tensor], rows: Tensor, lengths: tuple[int, ...]
) -> Tensor:
    """Outputs of the last operation, in the tensors' own type and with gradients."""
    for _, outputs in tensor_outputs(network, tensors, rows, lengths):
        last = outputs
    return last


def tensor_outputs(
    network: Transformer,
    tensors: Mapping[tuple[int, str], Tensor],
    inputs: Tensor,
    lengths: tuple[int, ...],
    first: int = 0,
) -> Iterator[tuple[int, Tensor]]:
    """Number and outputs, in PyTorch, of each operation from `first` on, see `float_outputs`.

    For `first` above 0, `inputs` are the outputs at the cut, see `Transformer.crossing`.
    """
    network.check_lengths(lengths)
    last_reader = {read: number for number, reads in enumerate(network.reads) for read in reads}
    outputs = {network.crossing(first) if first else INPUTS: inputs}
    for number, reads in list(enumerate(network.reads))[first:]:
        result = _output(network, number, [outputs[read] for read in reads], tensors, lengths)
        outputs[number] = result
        for read in set(reads):
            if last_reader[read] == number:
                del outputs[read]
        yield number, result


def _output(
    network: Transformer,
    number: int,
    inputs: list[Tensor],
    tensors: Mapping[tuple[int, str], Tensor],
    lengths: tuple[int, ...],
) -> Tensor:
    params = {kind: tensors[number, kind] for kind in network.kinds[number]}
    operation = network.operations[number]
    match operation:
        case Linear():
            return functional.linear(inputs[0], params["weight"], params.get("bias"))
        case Normalisation():
            normed = functional.layer_norm if operation.centred else functional.rms_norm
            return normed(inputs[0], inputs[0].shape[1:], eps=operation.eps) * params["factor"] + params.get("bias", 0)
        case SelfAttention():
            return _attention(operation, inputs, lengths)
        case Activation():
            return activation(operation.kind, inputs[0])
        case Gate():
            return inputs[0] * inputs[1]
        case Residual():
            return inputs[0] + inputs[1]
        case Positions():
            return inputs[0] + params["position"][torch.cat([torch.arange(length) for length in lengths])]
        case PoolTokens():
            return torch.stack(
                [_pooled(operation.kind, sentence) for sentence in torch.split(inputs[0], list(lengths))]
            )
        case UnitLength():
            return functional.normalize(inputs[0])


def _pooled(kind: PoolKind, rows: Tensor) -> Tensor:
    return rows.mean(0) if kind == "mean" else rows[0 if kind == "first" else -1]


def _attention(operation: SelfAttention, inputs: list[Tensor], lengths: tuple[int, ...]) -> Tensor:
    """Attention of sentences; neighbours of equal length are computed together."""
    contexts = []
    groups = [(len([*same]), tokens) for tokens, same in groupby(lengths)]
    parts = (torch.split(rows, [count * tokens for count, tokens in groups]) for rows in inputs)
    for (count, tokens), *group in zip(groups, *parts, strict=True):
        # (sentences, heads, tokens, width)
        queries, keys, values = (rows.reshape(count, tokens, -1, operation.width).transpose(1, 2) for rows in group)
        if operation.rotary_base is not None:
            queries, keys = (_rotated(rows, operation.rotary_base) for rows in (queries, keys))
        mixed = functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            is_causal=operation.causal,
            enable_gqa=operation.heads != operation.key_heads,
            scale=operation.scale,
        )
        contexts.append(mixed.transpose(1, 2).reshape(count * tokens, -1))
    return torch.cat(contexts)


@lru_cache
def _turns(tokens: int, width: int, base: float) -> tuple[Tensor, Tensor]:
    angles = torch.arange(tokens)[:, None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return angles.cos(), angles.sin()


def _rotated(rows: Tensor, base: float) -> Tensor:
    first, second = rows.chunk(2, dim=-1)
    cosine, sine = (table.to(rows) for table in _turns(rows.shape[-2], rows.shape[-1], base))
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
