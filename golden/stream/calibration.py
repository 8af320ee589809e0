"""Output formats of a transformer's operations, shifted where samples show large activations.

Decoders of Llama's kind write very large values for a sentence's first token, to which all others attend. In SmolLM2
the first token's residual reaches 26,000 and its gate 3,300; other tokens reach some hundreds and some tens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fixed import Q8_16, Format
from ..transformer.blocks import Parameters, PoolTokens, Transformer
from ..transformer.float_model import float_outputs, run_float
from .forward import IntegerTransformer
from .frozen_base import FrozenBase


def largest_outputs(
    network: Transformer, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> dict[int, float]:
    """Largest magnitude of each operation's outputs in float, by operation; see `float_outputs`."""
    return {number: float(np.abs(values).max()) for number, values in float_outputs(network, parameters, rows, lengths)}


def activation_formats(transformer: IntegerTransformer, largest: Mapping[int, float]) -> dict[int, Format]:
    """Formats of the outputs that would overflow, by operation: same width, range at least 9/8 of the largest value."""
    formats = {}
    for number, form in enumerate(transformer.formats):
        if isinstance(transformer.network.operations[number], PoolTokens):
            continue  # the pool has its input's format
        integer = int(np.frexp(largest[number] * 9 / 8)[1]) + 1
        if integer > form.integer:
            formats[number] = Format(integer, form.width - integer)
    return formats


@dataclass(frozen=True)
class OperationRange:
    """Range of an operation's outputs: extremes in float64, number of outputs, clipped integers, relative rms error."""

    least: float
    most: float
    saturated: int
    values: int
    error: float


def operation_ranges(
    base: FrozenBase, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> list[OperationRange]:
    """Ranges of all operations, from float64 and integer runs.

    `rows` are (tokens of all sentences, features), `lengths` the tokens of each sentence; `parameters` are the float
    tensors of `base`.
    """
    model = base.transformer
    exact = run_float(model.network, parameters, rows, lengths)
    outputs, saturations = model.run(base.integers, Q8_16.from_float(rows), lengths)
    ranges = []
    for floats, integers, form, clipped in zip(exact, outputs, model.formats, saturations, strict=True):
        size = float(np.sqrt(np.mean(floats**2)))
        off = float(np.sqrt(np.mean((form.to_float(integers) - floats) ** 2)))
        ranges.append(
            OperationRange(float(floats.min()), float(floats.max()), clipped, floats.size, off / size if size else 0.0)
        )
    return ranges
