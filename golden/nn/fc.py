"""`fc`: a fully connected layer of the frozen network on its own, with the activation behind it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..models.layers import Linear
from ..models.stages import Stage
from .layer_block import LayerBlockSpec, check_sizes


@dataclass(frozen=True, kw_only=True)
class FcSpec(LayerBlockSpec):
    """Parameters and model of `fc`.

    Parameters
    ----------
    inputs : int
        Number of inputs, 1 to 16384.
    outputs : int
        Number of outputs, 1 to 16384.
    activation : str
        Activation by its word in a network's text, as ``relu6``; ``none`` for none. Refused: any other word.
    lanes : int
        Inputs that are multiplied at once, a power of two. Refused: anything but 16 and 32.
    columns : int
        Outputs that are computed at once, a power of two. Refused: anything but 2, 4, 8, 16.
    """

    name: ClassVar[str] = "fc"
    summary: ClassVar[str] = "fully connected layer: Q8.16 x Q4.12, exact sums, one rounding, ReLU"
    presets: ClassVar[dict[str, dict[str, object]]] = {"lenet5-1": {"inputs": 400, "outputs": 120}}

    inputs: int = 120
    outputs: int = 84

    def __post_init__(self) -> None:
        check_sizes({"inputs": self.inputs, "outputs": self.outputs}, 1 << 14)
        super().__post_init__()

    @cached_property
    def stage(self) -> Stage:
        """The layer and its activation."""
        return self._stage((self.inputs,), Linear(self.outputs))
