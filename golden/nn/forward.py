"""Integer forward pass of a stage: activations Q8.16, parameters Q4.12, exact sums, one rounding per value."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..fixed import Q4_12, Q8_16, Integers, Narrower
from ..models.network import Convolution, Stage
from .products import Product

PRODUCT_FRACTION = Q8_16.fraction + Q4_12.fraction
"""Fraction bits of an activation times a parameter, and of their sums."""


@dataclass(frozen=True)
class StageIntegers:
    """Weights and biases of a stage in Q4.12, in the shapes of `Stage.weight_shape` and (`Stage.biases`,)."""

    weight: Integers
    bias: Integers


def forward(stage: Stage, own: StageIntegers, inputs: Integers, product: Product, narrow: Narrower) -> Integers:
    """Run one stage.

    Parameters
    ----------
    stage : Stage
    own : StageIntegers
    inputs : array of int, (n, *stage.input_shape)
        Q8.16.
    product, narrow
        Matrix product and narrowing.

    Returns
    -------
    array of int64, (n, *stage.output_shape)
        Q8.16.
    """
    matrix = own.weight.reshape(stage.biases, -1).T
    rows = _windows(inputs, stage) if isinstance(stage.layer, Convolution) else inputs.reshape(len(inputs), -1)
    sums = product(rows, matrix) + (own.bias << Q8_16.fraction)
    result = narrow(sums, PRODUCT_FRACTION, Q8_16)
    if stage.relu:
        result = np.maximum(result, 0)
    if len(stage.computed_shape) == 1:
        return result
    channels, height, width = stage.output_shape
    maps = result.reshape(len(inputs), height, stage.pool, width, stage.pool, channels).max(axis=(2, 4))
    return np.ascontiguousarray(maps.transpose(0, 3, 1, 2))


def _windows(inputs: Integers, stage: Stage) -> Integers:
    """Inputs of each output pixel: (n * height * width, channels * kernel * kernel).

    Pixels outside all windows of the max-pool are not computed, and so do not saturate.
    """
    assert isinstance(stage.layer, Convolution)
    kernel, padding = stage.layer.kernel, stage.layer.padding
    sides = (padding, padding)
    padded = np.pad(inputs, ((0, 0), (0, 0), sides, sides))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    height, width = (side - side % stage.pool for side in stage.computed_shape[1:])
    pixels = windows[:, :, :height, :width].transpose(0, 2, 3, 1, 4, 5)
    return pixels.reshape(prod(pixels.shape[:3]), -1)
