"""Bench of `activation_function`: all functions and shifts, values of all magnitudes, ends of the tables; two jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words
from ....golden.fixed import Q8_16
from ....golden.stream.forward import SHIFT
from ....golden.stream.values.activation_function import KINDS, ActivationFunctionSpec


def stimulus(spec: ActivationFunctionSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Values of all magnitudes and signs, ends of tables, extremes of the format; half without a shift."""
    shape = (words, spec.lanes)
    value = rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True) >> rng.integers(0, Q8_16.width, shape)
    input_shift, output_shift = (
        np.where(rng.random((words, 1)) < 0.5, 0, rng.integers(0, SHIFT.maximum, (words, 1), endpoint=True))
        for _ in range(2)
    )
    ends = [function.segments << function.segment_bits for function in spec.table.functions]
    near = rng.choice([0, *ends], shape) + rng.integers(-3, 3, shape, endpoint=True)
    value = np.where(rng.random(shape) < 0.2, rng.choice([-1, 1], shape) * near >> input_shift, value)
    value = np.where(rng.random(shape) < 0.05, rng.choice([Q8_16.minimum, Q8_16.maximum, 0], shape), value)
    fields = {
        "value": value,
        "kind": rng.integers(0, len(KINDS), (words, 1)),
        "input_shift": input_shift,
        "output_shift": output_shift,
    }
    if spec.tag:
        fields["tag"] = rng.integers(0, 1 << spec.tag, (words, 1))
    return {"i": fields}
