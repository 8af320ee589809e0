"""Bench of `layer_norm`: rows of all lengths, all kinds of norm, zero, equal and extreme values; several jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Q8_16, Integers
from ....golden.stream.norms import Q11_16, Norm
from ....golden.stream.values.layer_norm import FACTOR_BITS, PARAMETERS_A_BEAT, LayerNormSpec
from ...phase import Phase
from ...stimulus import two_jobs, whole_job


def stimulus(spec: LayerNormSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations of many sizes; the first has one feature, the second the largest number."""
    parts, remaining = list[dict[str, Words]](), words
    while remaining > 0:
        features = [1, spec.features][len(parts)] if len(parts) < 2 else _features(spec, rng)
        width = -(-features // spec.lanes)
        rows = min(int(rng.integers(1, 6)), max(1, remaining // width))
        if width > remaining and len(parts) > 1:
            features, width, rows = int(rng.integers(1, remaining * spec.lanes, endpoint=True)), remaining, 1
            width = -(-features // spec.lanes)
        parts.append(operation(spec, rng, features, rows))
        remaining -= rows * width
    return joined(parts)


def _features(spec: LayerNormSpec, rng: np.random.Generator) -> int:
    near = int(rng.integers(1, 6 * spec.lanes, endpoint=True))
    return int(rng.choice([min(near, spec.features), 1 << int(rng.integers(spec.features.bit_length()))]))


def operation(
    spec: LayerNormSpec, rng: np.random.Generator, features: int, rows: int, many: bool = False
) -> dict[str, Words]:
    """An operation with random settings; with `many`, for tests at full rate, rows have only ordinary values."""
    norm = Norm(features, float(rng.choice(np.array([0, 1e-12, 1e-5, 0.99]))), bool(rng.integers(2)))
    share, share_fraction = norm.share
    fraction, biased = (
        int(rng.choice([0, 14, 16, 17, FACTOR_BITS, int(rng.integers(FACTOR_BITS))])),
        int(rng.integers(2)),
    )
    fields = {
        "features": features,
        "rows": rows,
        "centred": int(norm.centred),
        "biased": biased,
        "factor": share,
        "factor_fraction": share_fraction,
        "least": int(rng.choice([norm.least, (1 << 48) - 1], p=[0.95, 0.05])),
        "fraction": fraction,
        "result_shift": int(rng.choice([0, 1, 12, int(rng.integers(13))])),
    }
    width = -(-features // spec.lanes)
    value = np.concatenate([_row(rng, width * spec.lanes, features, many) for _ in range(rows)])
    side = rng.integers(0, 2, (rows * width, 1))
    words = {"value": value.reshape(-1, spec.lanes), "side": side}
    if spec.tag:
        words["tag"] = rng.integers(0, 1 << spec.tag, (rows * width, 1))
    count = -(-features // PARAMETERS_A_BEAT) * PARAMETERS_A_BEAT
    vectors = [np.stack([_biases(rng, count, fraction) for _ in range(2)])] * biased
    vectors.append(np.stack([_factors(rng, count) for _ in range(2)]))
    plus, minus = np.concatenate([vector.reshape(2, -1, PARAMETERS_A_BEAT) for vector in vectors], axis=1)
    return {
        "operation": {name: np.array([[number]]) for name, number in fields.items()},
        "parameters": {"plus": plus, "minus": minus},
        "i": words,
    }


def _row(rng: np.random.Generator, count: int, features: int, normal: bool) -> Integers:
    """A row of values; values after `features` are random."""
    low, high = Q11_16.minimum, Q11_16.maximum
    values = rng.integers(low, high, count, endpoint=True)
    kinds: Sequence[Integers] = (
        values >> int(rng.integers(Q11_16.width)),
        # nearly equal values: the variance is the difference of two nearly equal sums
        rng.integers(-3, 3, count, endpoint=True) + (int(rng.integers(-1000, 1000)) << int(rng.integers(16))),
        np.full(count, int(rng.choice([0, 1, -1, low, high, 12345]))),
        rng.choice([low, high], count),
        np.where(np.arange(count) == rng.integers(features), rng.choice([low, high, 63]), 0),
    )
    row = kinds[0] if normal else kinds[int(rng.integers(len(kinds)))].copy()
    row[features:] = values[features:]
    return row


def _factors(rng: np.random.Generator, count: int) -> Integers:
    """Factors of all magnitudes, with extremes and ties; bits above the format are random."""
    half = 1 << (FACTOR_BITS - 1)
    values = rng.integers(-half, half, count) >> rng.integers(0, FACTOR_BITS, count)
    values = np.where(rng.random(count) < 0.2, rng.choice([-half, half - 1, 0, 1, half // 2], count), values)
    above = rng.integers(-(Q8_16.maximum >> FACTOR_BITS), Q8_16.maximum >> FACTOR_BITS, count)
    return (values & (2 * half - 1)) + (np.where(rng.random(count) < 0.5, above, -1 * (values < 0)) << FACTOR_BITS)


def _biases(rng: np.random.Generator, count: int, fraction: int) -> Integers:
    values = rng.integers(Q8_16.minimum, Q8_16.maximum, count, endpoint=True) >> rng.integers(0, Q8_16.width, count)
    return np.where(rng.random(count) < 0.1, rng.choice([Q8_16.minimum, Q8_16.maximum, 0], count), values)


def scenario(spec: LayerNormSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of many operations; then two jobs with exact cycles, of short and of long rows."""
    first, second = two_jobs(spec, rng, words, stimulus)
    phases = [replace(first, cycles=spec.cycles(first.inputs["operation"])), second]
    for features in (min(3, spec.features), spec.features):
        rows = max(2, words // 4 // -(-features // spec.lanes))
        inputs = operation(spec, rng, features, rows, many=True)
        phases.append(whole_job(spec, inputs, spec.cycles(inputs["operation"])))
    return phases
