"""Batch norm in evaluation mode, folded into the layer before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .element_order import ElementOrder

Floats64 = NDArray[np.float64]


@dataclass(frozen=True)
class StageParameters:
    """Weight and bias of a stage after folding batch norm.

    Parameters
    ----------
    weight : array of float64, the stage's `weight_shape`
    bias : array of float64, (biases,)
        Zeros if the layer has no bias.
    """

    weight: Floats64
    bias: Floats64


@dataclass(frozen=True)
class NormTensors:
    """Tensors of a batch norm, (channels,) each.

    Parameters
    ----------
    mean, variance : array of float64
        Running statistics.
    weight, bias : array of float64 or None
    eps : float
        Added to the variance.
    """

    mean: Floats64
    variance: Floats64
    weight: Floats64 | None
    bias: Floats64 | None
    eps: float

    def ordered(self, order: ElementOrder | None) -> NormTensors:
        """Tensors in the order of a layer."""
        if order is None:
            return self
        weight, bias = (None if one is None else order.taken(one) for one in (self.weight, self.bias))
        return NormTensors(order.taken(self.mean), order.taken(self.variance), weight, bias, self.eps)

    def folded(self, before: StageParameters, where: str) -> StageParameters:
        """Fold into the parameters of the layer before.

        Parameters
        ----------
        before : StageParameters
        where : str
            Name of the batch norm for messages.

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
