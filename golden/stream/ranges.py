"""Dynamic range of a transformer's tensors on given rows, and what saturates in the hardware's integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fixed import Q8_16
from ..transformer.blocks import Parameters
from ..transformer.float_model import run_float
from .frozen_base import FrozenBase


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
