"""Advice where samples or parameters do not fit the hardware's formats, before any work is done with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import frexp

import numpy as np

from ..datasets.dataset import Samples
from ..fixed import Q4_12, Q8_16
from ..importers.layers.folding import Parameters
from .conversion import Converter

BOUND = 2.0 ** (Q8_16.width - Q8_16.fraction - 1)
"""Values of Q8.16 are below it."""


def samples_advice(parts: Sequence[Samples], scale: float = 1.0) -> str | None:
    """Advice on samples that are outside Q8.16; None where all fit.

    Parameters
    ----------
    parts : sequence of Samples
    scale : float
        Factor by which they are multiplied already.
    """
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
    """Largest power of two by which a magnitude is multiplied to fit Q8.16."""
    factor = BOUND / 2.0 ** frexp(largest)[1]
    return factor if largest * factor <= Q8_16.maximum * 2.0**-Q8_16.fraction else factor / 2


def parameters_advice(where: str, clipped: int, count: int, largest: float) -> str:
    """Advice on parameters of a stage that are outside Q4.12."""
    return (
        f"{where}: {clipped} of {count} parameters are outside {Q4_12}, -8 to 8 (up to {largest:.4g}): train with "
        "weight decay, or rescale them"
    )


def stages_advice(titles: Sequence[str], parameters: Parameters) -> Iterator[str]:
    """Advice on each stage with parameters outside Q4.12.

    Parameters
    ----------
    titles : sequence of str
        Names of the stages' layers.
    parameters : tuple of StageParameters
    """
    for number, (title, one) in enumerate(zip(titles, parameters, strict=True)):
        converter = Converter()
        converter.stages((one,))
        if converter.clipped:
            largest = max(float(np.abs(one.weight).max()), float(np.abs(one.bias).max()))
            count = one.weight.size + one.bias.size
            yield parameters_advice(f"stage {number} ({title})", converter.clipped, count, largest)
