"""Formats of a transformer's activations from what they are on samples: as wide as ever, shifted where they are large.

Decoders of Llama's kind write very large values for a sentence's first token, to which all others attend. In SmolLM2
its residual is 26,000, and a gate 3,300, where other tokens have some hundreds and some tens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fixed import Format
from ..transformer.blocks import Parameters, PoolTokens, Transformer
from ..transformer.float_model import float_outputs
from .forward import IntegerTransformer


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
