"""Pairs of pixels: words of a convolution of few outputs that serve two neighbouring pixels at once.

The window has the columns of both pixels. Some columns of the array have the weights for the left one, others the same
weights as far to the right as the pixels are apart. For the loops it is a convolution with twice the outputs, of half
as many pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ...models.layers import Convolution, MaxPool
from ...models.stages import Stage
from ..arithmetic.forward import beyond_map

Pairs = Literal["none", "frozen", "perturbed"]
"""Which pairs a mapping may have, see `mapping.Mapping`."""


class PixelPair(NamedTuple):
    """Pixels whose sums a stage makes at once.

    Attributes
    ----------
    apart : int
        Columns of the input from one pixel's window to the other's.
    columns : int
        Columns of the array from a channel of the one to that of the other.
    merged : bool
        Both are of one window of a max-pool; otherwise they are of neighbouring outputs.
    """

    apart: int
    columns: int
    merged: bool


def pixel_pairs(stage: Stage, columns: int, pixel: int) -> Iterator[PixelPair]:
    """Pairs that a stage may have, in the order of what they cost.

    Parameters
    ----------
    stage : Stage
    columns : int
        Those of the array.
    pixel : int
        Values from a pixel of the outputs to the next one: neighbouring outputs are written as one run, so that all of
        them have to be the stage's own.
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
