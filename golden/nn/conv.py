"""`conv`: a convolution of the frozen network on its own, with the activation and pool behind it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar, Literal

from ..errors import UserError
from ..models.layers import AveragePool, Convolution, Layer, MaxPool
from ..models.stages import Stage
from .layer_block import LARGEST_SIDE, FilterBlockSpec, check_sizes, expand


@dataclass(frozen=True, kw_only=True)
class ConvSpec(FilterBlockSpec):
    """Parameters and model of `conv`.

    Parameters
    ----------
    channels : int
        Channels of the input, 1 to 1024.
    height : int
        Height of the input, 1 to 1024. Refused: a padded input smaller than the kernel.
    width : int
        Width of the input. Refused: as `height`.
    outputs : int
        Output channels, 1 to 1024.
    kernel : tuple of int
        Height and width, or one number for both, 1 to 16.
    stride : tuple of int
        Rows and columns from a window to the next, or one number for both, 1 to 16.
    padding : tuple of int
        Zeros above, below, left and right, or one number for all sides, 0 to 15.
    pool : tuple of int
        Height and width of the pool's windows, or one number for both, 1 for none; rows and columns that do not fill a
        window are dropped. From 1 to 16. Refused: larger than what it pools.
    pool_kind : "max" or "average"
        `max` or `average`: exact sum of the outputs behind the activation, one division, rounded half to even.
    pool_stride : tuple of int
        Rows and columns from one of them to the next, or one number for both; empty for those of `pool`. From 1 to
        those of `pool`. Refused: with an average.
    pool_padding : tuple of int
        Rows and columns of windows beyond the map, which do not count: above, below, left and right, or one number for
        all sides; of a max-pool, at most its stride. Refused: as large as `pool`, larger than `pool_stride`; with an
        average.
    activation : str
        Activation by its word in a network's text, as ``relu6``; ``none`` for none. Refused: any other word.
    lanes : int
        Inputs that are multiplied at once, a power of two. Refused: anything but 16 and 32.
    columns : int
        Output channels that are computed at once, a power of two. Refused: anything but 2, 4, 8, 16.
    """

    name: ClassVar[str] = "conv"
    summary: ClassVar[str] = "convolution with ReLU and pool: Q8.16 x Q4.12, exact sums, one rounding"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "lenet5-1": {"channels": 1, "height": 28, "width": 28, "kernel": (5,), "padding": (2,)},
        "lenet5-2": {"channels": 6, "height": 14, "width": 14, "outputs": 16, "kernel": (5,), "padding": (0,)},
    }

    outputs: int = 6
    pool: tuple[int, ...] = (2,)
    pool_kind: Literal["max", "average"] = "max"
    pool_stride: tuple[int, ...] = ()
    pool_padding: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        check_sizes({"outputs": self.outputs}, LARGEST_SIDE)
        expand("pool", self.pool, 2, 1, 16)
        if self.pool_stride:
            expand("pool_stride", self.pool_stride, 2, 1, 16)
            if self.pool_kind == "average":
                raise UserError("pool_stride is that of a max-pool: windows of an average do not overlap")
        if any(expand("pool_padding", self.pool_padding, 4, 0, 15)) and self.pool_kind == "average":
            raise UserError("pool_padding is that of a max-pool: windows of an average end with the map")
        super().__post_init__()

    @cached_property
    def stage(self) -> Stage:
        """The layer and what follows it."""
        pool = expand("pool", self.pool, 2, 1, 16)
        behind: list[Layer] = []
        if prod(pool) > 1 and self.pool_kind == "average":
            behind.append(AveragePool((pool[0], pool[1])))
        elif prod(pool) > 1:
            step = expand("pool_stride", self.pool_stride or pool, 2, 1, 16)
            top, bottom, left, right = expand("pool_padding", self.pool_padding, 4, 0, 15)
            behind.append(MaxPool((pool[0], pool[1]), (step[0], step[1]), (top, bottom, left, right)))
        return self._stage((self.channels, self.height, self.width), Convolution(self.outputs, *self._filter), *behind)
