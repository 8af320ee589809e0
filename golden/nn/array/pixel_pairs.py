"""Pixel pairs: words of a convolution with few outputs that compute two adjacent pixels.

The window spans both pixels. Some columns of the array have the weights of the left pixel, others the same weights
shifted to the right pixel. The loops see twice the outputs and half the pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ...models.layers import Convolution, MaxPool
from ...models.stages import Stage
from ..arithmetic.forward import beyond_map

Pairs = Literal["none", "frozen", "perturbed"]
"""Pairs allowed in a mapping, see `mapping.Mapping`."""


class PixelPair(NamedTuple):
    """Two pixels computed by one word.

    Attributes
    ----------
    apart : int
        Input columns between both windows.
    columns : int
        Array columns between a channel of the left and of the right pixel.
    merged : bool
        Both pixels are in one window of a max-pool, otherwise adjacent outputs.
    """

    apart: int
    columns: int
    merged: bool


def pixel_pairs(stage: Stage, columns: int, pixel: int) -> Iterator[PixelPair]:
    """Possible pairs of a stage, cheapest first.

    Parameters
    ----------
    stage : Stage
    columns : int
        Columns of the array.
    pixel : int
        Values between adjacent output pixels. All must belong to the stage, because adjacent outputs are written as one
        run.
    """
    layer, pool = stage.layer, stage.pool
    if not isinstance(layer, Convolution) or layer.groups > 1 or 2 * stage.biases > columns:
        return
    if stage.residual is not None or len(stage.output_shape) == 1 or any(beyond_map(stage)):
        return
    stride = layer.stride[1]
    if stage.output_shape[2] % 2 == 0 and pixel == stage.biases:
        yield PixelPair(stride * (1 if pool is None else pool.stride[1]), stage.biases, merged=False)
    if isinstance(pool, MaxPool) and pool.size[1] % 2 == 0:
        yield PixelPair(stride, columns // 2, merged=True)
