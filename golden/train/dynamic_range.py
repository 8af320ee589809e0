"""Dynamic range of a network's tensors, saturation in the hardware's formats, and advice to the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import frexp

import numpy as np
import torch

from ..datasets.dataset import Samples
from ..fixed import Q4_12, Q8_16, Narrower
from ..importers.layers.folding import Parameters
from ..models.module import NetworkModule
from ..models.network import Network
from ..nn.arithmetic.forward import forward, side_by_side
from ..nn.arithmetic.products import product_of
from .conversion import Converter

_AT_ONCE = 50
"""Samples in one forward pass; bounds the memory of a convolution's windows."""


@dataclass(frozen=True)
class StageRange:
    """Range of a stage's tensors.

    Parameters
    ----------
    weight, bias : float
        Largest magnitude of a parameter, in float.
    parameters_clipped : int
        Parameters outside Q4.12.
    least, most : float or None
        Smallest and largest float output, after activation and pool; None without samples.
    saturated : int
        Sums that saturate in Q8.16 before the activation, over all samples.
    sums : int
        All sums over all samples.
    """

    weight: float
    bias: float
    parameters_clipped: int
    least: float | None = None
    most: float | None = None
    saturated: int = 0
    sums: int = 0


def dynamic_range(
    network: Network, module: NetworkModule, parameters: Parameters, samples: Samples | None
) -> tuple[int, list[StageRange]]:
    """Number of sample values outside Q8.16, and the range of each stage.

    `module` has the network's float weights, `parameters` the same weights with batch norm folded, see
    `models.folding.folded`. Without samples only parameters are measured.
    """
    ranges: list[StageRange] = []
    integers, converter = [], Converter()
    for stage_parameters in parameters:
        before = converter.clipped
        integers += converter.stages((stage_parameters,))
        largest = float(np.abs(stage_parameters.weight).max()), float(np.abs(stage_parameters.bias).max())
        ranges.append(StageRange(*largest, converter.clipped - before))
    if samples is None:
        return 0, ranges
    inputs, product = Converter(), product_of("blas")
    ends = [(np.inf, -np.inf)] * len(ranges)
    counters, sums = [Narrower() for _ in ranges], [0] * len(ranges)
    for start in range(0, len(samples), _AT_ONCE):
        part = samples[start : start + _AT_ONCE]
        with torch.no_grad():
            floats = module.outputs(torch.from_numpy(part.values()))
        values = [inputs.samples(part)]
        for number, (stage, stage_integers) in enumerate(zip(network.stages, integers, strict=True)):
            residual = None if stage.residual is None else side_by_side(values, stage.residual)
            source = side_by_side(values, stage.source)
            values.append(forward(stage, stage_integers, source, product, counters[number], residual))
            sums[number] += len(part) * int(np.prod(stage.computed_shape))
            outputs = floats[network.ends[number]]
            ends[number] = min(ends[number][0], float(outputs.min())), max(ends[number][1], float(outputs.max()))
    measured = [
        StageRange(tensors.weight, tensors.bias, tensors.parameters_clipped, *end, counter.saturations, count)
        for tensors, end, counter, count in zip(ranges, ends, counters, sums, strict=True)
    ]
    return inputs.clipped, measured


BOUND = 2.0 ** (Q8_16.width - Q8_16.fraction - 1)
"""Upper limit of Q8.16, itself excluded."""


def samples_advice(parts: Sequence[Samples], scale: float = 1.0) -> str | None:
    """Advice on samples outside Q8.16, which are already multiplied by `scale`; None where all fit."""
    converter, largest = Converter(), 0.0
    for samples in parts:
        if len(samples) and samples.inputs.dtype != np.uint8:
            converter.samples(samples)
            largest = max(largest, float(np.abs(samples.inputs).max()))
    if not converter.clipped:
        return None
    return (
        f"{converter.clipped} values of the samples are outside {Q8_16}, -128 to 128 (up to {largest:.4g}): scale the "
        f"samples, as --scale {fitting_scale(largest) * scale:g} does, and train the network on samples scaled alike"
    )


def fitting_scale(largest: float) -> float:
    """Largest power of two by which a magnitude can be multiplied and still fit Q8.16."""
    factor = BOUND / 2.0 ** frexp(largest)[1]
    return factor if largest * factor <= Q8_16.maximum * 2.0**-Q8_16.fraction else factor / 2


def parameters_advice(where: str, clipped: int, count: int, largest: float) -> str:
    return (
        f"{where}: {clipped} of {count} parameters are outside {Q4_12}, -8 to 8 (up to {largest:.4g}): train with "
        "weight decay, or rescale them"
    )


def stages_advice(titles: Sequence[str], parameters: Parameters) -> Iterator[str]:
    """Advice on each stage with parameters outside Q4.12; `titles` are the stages' layer names."""
    for number, (title, stage) in enumerate(zip(titles, parameters, strict=True)):
        converter = Converter()
        converter.stages((stage,))
        if converter.clipped:
            largest = max(float(np.abs(stage.weight).max()), float(np.abs(stage.bias).max()))
            count = stage.weight.size + stage.bias.size
            yield parameters_advice(f"stage {number} ({title})", converter.clipped, count, largest)
