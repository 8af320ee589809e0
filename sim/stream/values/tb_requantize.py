"""Bench of `requantize`: sums of all magnitudes, extremes of all formats, ties, all settings; two jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words
from ....golden.fixed import Q8_16
from ....golden.stream.forward import SHIFT, WEIGHT_BITS
from ....golden.stream.values.requantize import FORM, FORMATS, SUM, RequantizeSpec


def stimulus(spec: RequantizeSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Sums of all magnitudes and signs, near the extremes of the result's format, and ties; half without a shift."""
    shape, column = (words, spec.lanes), (words, 1)
    fraction = rng.integers(0, WEIGHT_BITS, column)
    input_shift, output_shift = (
        np.where(rng.random(column) < 0.5, 0, rng.integers(0, SHIFT.maximum, column, endpoint=True)) for _ in range(2)
    )
    form = rng.integers(0, FORM.maximum, column, endpoint=True)
    kinds = np.minimum(form, len(FORMATS) - 1)
    kept = fraction + Q8_16.fraction - np.array([one.fraction for one in FORMATS])[kinds] + output_shift - input_shift
    widths = np.array([one.width for one in FORMATS])[kinds]
    exact = rng.integers(SUM.minimum, SUM.maximum, shape, endpoint=True) >> rng.integers(0, SUM.width, shape)
    bits = np.maximum(kept, 0)
    # the result is random or at an extreme of its format; the dropped bits are a tie or next to a tie
    near = rng.choice([-1, 1], shape) << (widths - 1)
    anywhere = rng.integers(-(1 << 17), 1 << 17, shape)
    wanted = np.where(rng.random(shape) < 0.5, near, anywhere) + rng.integers(-2, 2, shape, endpoint=True)
    tied = (wanted << bits) + ((1 << bits) >> 1) + rng.integers(-1, 1, shape, endpoint=True)
    total = np.where(rng.random(shape) < 0.6, np.clip(tied, SUM.minimum, SUM.maximum), exact)
    bias = rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True) >> rng.integers(0, Q8_16.width, shape)
    bias = np.where(rng.random(shape) < 0.5, bias, 0)
    fields = {
        "sum": total,
        "bias": bias,
        "fraction": fraction,
        "input_shift": input_shift,
        "output_shift": output_shift,
        "form": form,
    }
    if spec.tag:
        fields["tag"] = rng.integers(0, 1 << spec.tag, column)
    return {"i": fields}
