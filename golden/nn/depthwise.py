"""`depthwise`: a depthwise convolution of the frozen network on its own, one filter a channel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..models.layers import Depthwise
from ..models.stages import Stage
from .layer_block import FilterBlockSpec


@dataclass(frozen=True, kw_only=True)
class DepthwiseSpec(FilterBlockSpec):
    """Parameters and model of `depthwise`.

    Parameters
    ----------
    channels : int
        Channels of the input; the output has as many channels. From 1 to 1024.
    height : int
        Height of the input, 1 to 1024. Refused: a padded input smaller than the kernel.
    width : int
        Width of the input, 1 to 1024. Refused: as `height`.
    kernel : tuple of int
        Height and width, or one number for both, 1 to 16.
    stride : tuple of int
        Rows and columns from a window to the next, or one number for both, 1 to 16.
    padding : tuple of int
        Zeros above, below, left and right, or one number for all sides, 0 to 15.
    activation : str
        Activation by its word in a network's text, as ``relu6``; ``none`` for none. Refused: any other word.
    lanes : int
        Channels that are computed at once, a power of two. Refused: anything but 16 and 32.
    columns : int
        Channels whose sums are rounded at once, a power of two. Refused: anything but 2, 4, 8, 16.
    """

    name: ClassVar[str] = "depthwise"
    summary: ClassVar[str] = "depthwise convolution with ReLU: Q8.16 x Q4.12, exact sums, one rounding"
    presets: ClassVar[dict[str, dict[str, object]]] = {"ds-cnn": {"channels": 64, "height": 25, "width": 5}}

    channels: int = 16

    @cached_property
    def stage(self) -> Stage:
        """The layer and its activation."""
        return self._stage((self.channels, self.height, self.width), Depthwise(*self._filter))
