"""Conversion of floats to the hardware's integers, counting those that do not fit."""

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
    """Conversion half to even with saturation.

    Attributes
    ----------
    clipped : int
        Number of values so far that were outside their format.
    """

    def __init__(self) -> None:
        self.clipped = 0

    def convert(self, values: ArrayLike, target: Format) -> Integers:
        """Convert floats to integers of a format."""
        integers = target.from_float(values)
        ends = (target.minimum - 0.5) / 2**target.fraction, (target.maximum + 0.5) / 2**target.fraction
        self.clipped += int(np.count_nonzero((np.asarray(values) < ends[0]) | (np.asarray(values) > ends[1])))
        return integers

    def stages(self, parameters: Parameters) -> list[StageIntegers]:
        """Convert the weights and biases of all stages to Q4.12."""
        return [StageIntegers(self.convert(one.weight, Q4_12), self.convert(one.bias, Q4_12)) for one in parameters]

    def samples(self, samples: Samples) -> Integers:
        """Convert samples to Q8.16; a byte p is p / 255."""
        if samples.inputs.dtype == np.uint8:
            return q8_16_of_bytes(samples.inputs)
        return self.convert(samples.inputs, Q8_16)


def values_of(stages: Sequence[StageIntegers]) -> Parameters:
    """Values of integers in Q4.12, in float64."""
    return tuple(StageParameters(Q4_12.to_float(one.weight), Q4_12.to_float(one.bias)) for one in stages)


def core_inputs(samples: Samples) -> NDArray[np.integer]:
    """Samples as a core reads them: bytes, or Q8.16."""
    if samples.inputs.dtype == np.uint8:
        return samples.inputs.astype(np.uint8)
    return Converter().samples(samples)
