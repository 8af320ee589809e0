"""Bench of `attention_softmax`: blocks of queries of all sizes and score distributions, in two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Integers
from ....golden.stream.attention import SUM
from ....golden.stream.forward import SHIFT
from ....golden.stream.softmax.attention_softmax import FRACTIONS, AttentionSoftmaxSpec
from ...phase import Phase
from ...stimulus import two_jobs


def stimulus(spec: AttentionSoftmaxSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Blocks of queries with about `words` score words in all: single tokens, odd sizes, the largest sizes."""
    parts: list[dict[str, Words]] = []
    made = 0
    while made < words:
        part = _block(spec, rng, len(parts), words - made)
        made += len(part["scores"]["score"])
        parts.append(part)
    return joined(parts)


def _block(spec: AttentionSoftmaxSpec, rng: np.random.Generator, number: int, words: int) -> dict[str, Words]:
    causal = bool(rng.integers(2))
    # number of (query, key) pairs that give this many words
    pairs = max(words * spec.exponentials // 2, 1)
    queries = int(rng.integers(1, min(spec.queries, int(pairs**0.5) + 1), endpoint=True))
    keys = int(rng.integers(1, min(spec.keys, pairs // queries + 1), endpoint=True))
    if number % 4 == 0:
        queries = keys = 1
    elif number % 4 == 1:  # whole groups and tiles
        keys = min(spec.keys, max(spec.lanes, keys // spec.lanes * spec.lanes))
    first = 0
    if causal:
        keys = max(keys, queries)
        first = keys - queries
    fraction, query_shift, key_shift = FRACTIONS[9], 0, 0
    if rng.random() < 0.5:
        fraction = int(rng.choice(FRACTIONS))
        query_shift, key_shift = rng.integers(0, SHIFT.maximum, 2, endpoint=True).tolist()
    fields = {
        "queries": queries,
        "keys": keys,
        "first": first,
        "causal": int(causal),
        "factor": int(rng.integers(1 << 16, 1 << 17)),
        "fraction": fraction,
        "query_shift": query_shift,
        "key_shift": key_shift,
        "repeats": int(rng.choice([1, 2, 3])),
    }
    operation = {name: np.array([[value]]) for name, value in fields.items()}
    count = spec.operations(operation)[0].pairs(spec.columns) * spec.columns
    # close scores, for weights other than 0 and 1
    unit = 12 - query_shift - key_shift + fraction
    scores = _scores(rng, count, unit, int(rng.integers(6))).reshape(-1, spec.exponentials)
    return {"operation": operation, "scores": {"score": np.clip(scores, SUM.minimum, SUM.maximum)}}


def _scores(rng: np.random.Generator, count: int, unit: int, kind: int) -> Integers:
    """Random exact score sums; ``2**unit`` corresponds to an exponent of about 1."""
    if kind == 0:
        return np.full(count, rng.integers(-1 << 40, 1 << 40))
    if kind == 1:
        return rng.choice([SUM.minimum, SUM.maximum, 0, 1 << 39, (1 << 39) - 1], count)
    if kind == 2:
        return rng.integers(SUM.minimum, SUM.maximum, count) >> rng.integers(0, 48, count)
    spread = rng.normal(0, [0.3, 3.0, 30.0][kind - 3], count)
    return np.ldexp(spread, unit).clip(-(2.0**46), 2.0**46).astype(np.int64)


def scenario(spec: AttentionSoftmaxSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the second without a reset. The first has exact cycles, in which blocks overlap."""
    first, second = two_jobs(spec, rng, words, stimulus)
    return [replace(first, cycles=spec.cycles(spec.operations(first.inputs["operation"]))), second]
