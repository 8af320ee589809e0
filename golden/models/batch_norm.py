"""Batch norm in evaluation mode, folded into the preceding layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .element_order import ElementOrder

Floats64 = NDArray[np.float64]


@dataclass(frozen=True)
class StageParameters:
    """Folded weight (`Stage.weight_shape`) and bias ((biases,), zeros for a layer without bias) of a stage."""

    weight: Floats64
    bias: Floats64


@dataclass(frozen=True)
class NormTensors:
    """Running statistics, scale and shift of a batch norm, (channels,) each; `eps` is added to the variance."""

    mean: Floats64
    variance: Floats64
    weight: Floats64 | None
    bias: Floats64 | None
    eps: float

    def ordered(self, order: ElementOrder | None) -> NormTensors:
        """Tensors in a layer's channel order."""
        if order is None:
            return self
        weight, bias = (None if one is None else order.taken(one) for one in (self.weight, self.bias))
        return NormTensors(order.taken(self.mean), order.taken(self.variance), weight, bias, self.eps)

    def folded(self, before: StageParameters, where: str) -> StageParameters:
        """Parameters of the preceding layer with the batch norm folded in; `where` names the norm in messages.

        Raises
        ------
        UserError
            If a variance is negative.
        """
        variance = self.variance + self.eps
        if (variance <= 0).any():
            raise UserError(f"{where}.running_var has a value below -{self.eps}: a variance is not negative")
        scale, shift = 1 / np.sqrt(variance), np.zeros(len(variance))
        if self.weight is not None:
            scale = scale * self.weight
        if self.bias is not None:
            shift = self.bias
        bias = (before.bias - self.mean) * scale + shift
        return StageParameters(before.weight * scale.reshape(-1, *[1] * (before.weight.ndim - 1)), bias)
