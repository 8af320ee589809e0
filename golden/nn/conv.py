"""`conv`: a convolution of the frozen network on its own, with the max-pool and ReLU behind it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..errors import UserError
from ..models.layers import Convolution, MaxPool, Relu
from ..models.stages import Stage
from .layer_block import LayerBlockSpec


@dataclass(frozen=True, kw_only=True)
class ConvSpec(LayerBlockSpec):
    """Parameters and model of `conv`.

    Parameters
    ----------
    channels, height, width : int
        Of the input.
    outputs : int
        Output channels.
    kernel : int
        Height and width of the kernel; its stride is 1.
    padding : int
        Zeros on each side.
    pool : int
        Side of the max-pool, 1 for none.
    relu : bool
        Negative outputs become 0.
    lanes : int
        Inputs that are multiplied at once, a power of two.
    columns : int
        Output channels that are computed at once, a power of two.
    """

    name: ClassVar[str] = "conv"
    summary: ClassVar[str] = "convolution with max-pool and ReLU: Q8.16 x Q4.12, exact sums, one rounding"
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "lenet5-1": {"channels": 1, "height": 28, "width": 28, "kernel": 5, "padding": 2},
        "lenet5-2": {"channels": 6, "height": 14, "width": 14, "outputs": 16, "kernel": 5, "padding": 0},
    }

    channels: int = 3
    height: int = 10
    width: int = 10
    outputs: int = 6
    kernel: int = 3
    padding: int = 1
    pool: int = 2
    relu: bool = True

    def __post_init__(self) -> None:
        for name, least, most in (
            *((name, 1, 1024) for name in ("channels", "height", "width", "outputs")),
            ("kernel", 1, 16),
            ("padding", 0, 15),
            ("pool", 1, 16),
        ):
            if not least <= getattr(self, name) <= most:
                raise UserError(f"{name} = {getattr(self, name)} is not in {least} to {most}")
        super().__post_init__()

    @cached_property
    def stage(self) -> Stage:
        """The layer and what follows it."""
        behind = (*((MaxPool(self.pool),) if self.pool > 1 else ()), *((Relu(),) if self.relu else ()))
        shape = (self.channels, self.height, self.width)
        return self._stage(shape, Convolution(self.outputs, self.kernel, self.padding), *behind)
