"""Conversion of floats to the hardware's integers, with a count of values outside their format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..datasets.dataset import Samples
from ..fixed import Q4_12, Q8_16, Format, Integers, q8_16_of_bytes
from ..importers.layers.folding import Parameters
from ..models.batch_norm import StageParameters
from ..nn.arithmetic.forward import StageIntegers


class Converter:
    """Conversion with rounding half to even and saturation; `clipped` counts values outside their format."""

    def __init__(self) -> None:
        self.clipped = 0

    def convert(self, values: ArrayLike, target: Format) -> Integers:
        """Integers of a format, rounded half to even and saturated."""
        integers = target.from_float(values)
        ends = (target.minimum - 0.5) / 2**target.fraction, (target.maximum + 0.5) / 2**target.fraction
        self.clipped += int(np.count_nonzero((np.asarray(values) < ends[0]) | (np.asarray(values) > ends[1])))
        return integers

    def stages(self, parameters: Parameters) -> list[StageIntegers]:
        """Weights and biases of all stages in Q4.12."""
        return [
            StageIntegers(self.convert(stage.weight, Q4_12), self.convert(stage.bias, Q4_12)) for stage in parameters
        ]

    def samples(self, samples: Samples) -> Integers:
        """Samples in Q8.16; a byte p is p / 255."""
        if samples.inputs.dtype == np.uint8:
            return q8_16_of_bytes(samples.inputs)
        return self.convert(samples.inputs, Q8_16)


def values_of(stages: Sequence[StageIntegers]) -> Parameters:
    """Float64 values of weights and biases in Q4.12."""
    return tuple(StageParameters(Q4_12.to_float(stage.weight), Q4_12.to_float(stage.bias)) for stage in stages)


def core_inputs(samples: Samples) -> NDArray[np.integer]:
    """Samples in the form that a core reads: bytes, or Q8.16."""
    if samples.inputs.dtype == np.uint8:
        return samples.inputs.astype(np.uint8)
    return Converter().samples(samples)
