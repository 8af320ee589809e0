"""Bench of `context_scale`: blocks of queries of all sizes, sums up to the largest possible, in two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined, last_flags, packets_of
from ....golden.fixed import Q8_16
from ....golden.stream.attention import Q6_12, weights
from ....golden.stream.forward import SHIFT
from ....golden.stream.softmax.context_scale import ContextScaleSpec
from ...phase import Phase
from ...stimulus import two_jobs


def stimulus(spec: ContextScaleSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    parts: list[dict[str, Words]] = []
    made = 0
    while made < words:
        parts.append(_block(spec, rng, words - made))
        made += len(parts[-1]["i"]["sum"])
    return joined(parts)


def _block(spec: ContextScaleSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    drawn = int(rng.integers(1, min(words, spec.queries), endpoint=True))
    queries = int(rng.choice([1, 2, min(spec.queries, max(words // 3, 1)), drawn]))
    keys = int(rng.choice([1, spec.keys, int(rng.integers(1, spec.keys, endpoint=True))]))
    spread = rng.choice([1, 1 << 12, 1 << 18, 1 << 24])
    exponents = rng.integers(0, spread, (queries, keys)) + Q8_16.minimum
    terms, inverse = weights(np.clip(exponents, Q8_16.minimum, Q8_16.maximum))
    features = spec.lanes * int(rng.integers(1, 4))
    values = rng.integers(Q6_12.minimum, Q6_12.maximum, (keys, features), endpoint=True)
    equal = np.full_like(values, rng.choice([Q6_12.minimum, Q6_12.maximum, 0]))
    values = (values, values >> 9, equal)[int(rng.integers(3))]
    # in the array's order: for each group of features all queries
    sums = (terms @ values).reshape(queries, -1, spec.lanes).swapaxes(0, 1).reshape(-1, spec.lanes)
    query = np.tile(np.arange(queries), features // spec.lanes)[:, None]
    plain = rng.random() < 0.5
    shifts = {
        name: np.zeros_like(query) if plain else rng.integers(0, SHIFT.maximum, query.shape, endpoint=True)
        for name in ("value_shift", "output_shift")
    }
    fields = {"sum": sums, "query": query, "last": last_flags([len(query)]), **shifts}
    if spec.tag:
        fields["tag"] = rng.integers(0, 1 << spec.tag, query.shape)
    table = {"mantissa": inverse.mantissa, "exponent": inverse.exponent, "last": last_flags([queries])}
    return {"inverse": table, "i": fields}


def scenario(spec: ContextScaleSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the second without a reset; exact cycles of the first."""
    first, second = two_jobs(spec, rng, words, stimulus)
    lengths = ([end - start for start, end in packets_of(first.inputs[name]["last"])] for name in ("inverse", "i"))
    return [replace(first, cycles=spec.cycles(*lengths)), second]
