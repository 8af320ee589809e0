"""Formats of a transformer's activations from what they are on samples: as wide as ever, shifted where they are large.

Decoders of Llama's kind write very large values for a sentence's first token, to which all others attend. In SmolLM2
its residual is 26,000, and a gate 3,300, where other tokens have some hundreds and some tens.
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
    """Compute the largest magnitude of each operation's outputs in floats, see `float_outputs`."""
    return {number: float(np.abs(one).max()) for number, one in float_outputs(network, parameters, rows, lengths)}


def activation_formats(transformer: IntegerTransformer, largest: Mapping[int, float]) -> dict[int, Format]:
    """Choose the formats of those outputs that do not fit: of as many bits, and 9/8 of the largest fits.

    Others keep their format.

    Parameters
    ----------
    transformer : IntegerTransformer
    largest : mapping of int to float
        From `largest_outputs`.
    """
    found = {}
    for number, form in enumerate(transformer.formats):
        if isinstance(transformer.network.operations[number], PoolTokens):
            continue  # those of what it reads
        integer = int(np.frexp(largest[number] * 9 / 8)[1]) + 1
        if integer > form.integer:
            found[number] = Format(integer, form.width - integer)
    return found


@dataclass(frozen=True)
class OperationRange:
    """Range of an operation's outputs.

    Parameters
    ----------
    least, most : float
        In float64.
    saturated : int
        Values that the integers clip.
    values : int
        Number of the outputs.
    error : float
        Relative rms error of the integers.
    """

    least: float
    most: float
    saturated: int
    values: int
    error: float


def operation_ranges(
    base: FrozenBase, parameters: Parameters, rows: NDArray[np.floating[Any]], lengths: tuple[int, ...]
) -> list[OperationRange]:
    """Compute all operations in float64 and in integers, and compare them.

    Parameters
    ----------
    base : FrozenBase
    parameters : mapping
        The floats of which the base is.
    rows : array of float, (tokens of all sentences, features)
    lengths : tuple of int
    """
    model = base.transformer
    exact = run_float(model.network, parameters, rows, lengths)
    outputs, saturations = model.run(base.integers, Q8_16.from_float(rows), lengths)
    found = []
    for floats, integers, form, clipped in zip(exact, outputs, model.formats, saturations, strict=True):
        size = float(np.sqrt(np.mean(floats**2)))
        off = float(np.sqrt(np.mean((form.to_float(integers) - floats) ** 2)))
        found.append(
            OperationRange(float(floats.min()), float(floats.max()), clipped, floats.size, off / size if size else 0.0)
        )
    return found
