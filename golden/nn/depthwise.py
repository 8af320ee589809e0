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
    channels, height, width : int
        Of the input; the output has as many channels.
    kernel : tuple of int
        Height and width, or one number for both.
    stride : tuple of int
        Rows and columns from a window to the next, or one number for both.
    padding : tuple of int
        Zeros above, below, left and right, or one number for all sides.
    relu : bool
        Negative outputs become 0.
    limit : int
        Largest output, 6 for ReLU6; 0 for none.
    slope : float
        Factor of negative outputs, of a leaky ReLU; 0 for none.
    lanes : int
        Channels that are computed at once, a power of two.
    columns : int
        Channels whose sums are rounded at once, a power of two.
    """

    name: ClassVar[str] = "depthwise"
    summary: ClassVar[str] = "depthwise convolution with ReLU: Q8.16 x Q4.12, exact sums, one rounding"
    presets: ClassVar[dict[str, dict[str, object]]] = {"ds-cnn": {"channels": 64, "height": 25, "width": 5}}

    channels: int = 16

    @cached_property
    def stage(self) -> Stage:
        """The layer and its ReLU."""
        return self._stage((self.channels, self.height, self.width), Depthwise(*self._filter), *self._activation)
