"""Bench of `elementwise`: all operations and shifts, values of all magnitudes, extremes of the formats; two jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words
from ....golden.stream.forward import SHIFT
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.elementwise import KINDS, ElementwiseSpec


def stimulus(spec: ElementwiseSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Pairs of values of all magnitudes and signs; half without a shift."""
    shape, column = (words, spec.lanes), (words, 1)
    values = {}
    for name in ("first", "second"):
        sizes = rng.integers(Q11_16.minimum, Q11_16.maximum, shape, endpoint=True) >> rng.integers(0, 27, shape)
        ends = rng.choice([Q11_16.minimum, Q11_16.maximum, 1 << 15, -1 << 23, (1 << 23) - 1], shape)
        values[name] = np.where(rng.random(shape) < 0.1, ends, sizes)
    for name in ("first_shift", "second_shift", "output_shift"):
        values[name] = np.where(rng.random(column) < 0.5, 0, rng.integers(0, SHIFT.maximum, column, endpoint=True))
    values["kind"] = rng.integers(0, len(KINDS), column)
    if spec.tag:
        values["tag"] = rng.integers(0, 1 << spec.tag, column)
    return {"i": values}
