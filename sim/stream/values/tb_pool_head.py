"""Bench of `pool_head`: pools of sentences of all lengths and unit-length divisions; two jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Integers
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.chunk_unit import chunks_of
from ....golden.stream.values.pool_head import KINDS, NEAR_OCTAVE, PoolHeadSpec
from ...phase import Phase
from ...stimulus import random_lengths, two_jobs
from ..memory.chunk_places import places


def stimulus(spec: PoolHeadSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations of about 8 * `words` cycles in all: each kind once, then random kinds; the first has one feature."""
    parts, remaining = list[dict[str, Words]](), words
    while remaining > 0 or len(parts) < len(KINDS):
        kind = len(parts) if len(parts) < len(KINDS) else int(rng.integers(len(KINDS)))
        parts.append(operation(spec, rng, kind, max(remaining // 4, 8), 1 if not parts else 0))
        remaining -= spec.cycles(parts[-1]) // 8
    return joined(parts)


def operation(
    spec: PoolHeadSpec, rng: np.random.Generator, kind: int, reads: int, features: int = 0
) -> dict[str, Words]:
    """An operation with about `reads` chunk reads, and no more features than allowed."""
    most = min(spec.features, max(spec.columns, reads // 4 * spec.columns))
    few = min(most, spec.columns)
    features = features or int(rng.choice([most, *(int(rng.integers(1, one, endpoint=True)) for one in (most, few))]))
    groups = -(-features // spec.columns)
    if KINDS[kind] == "unit":
        rows = int(rng.integers(1, max(2, min(spec.sums, reads // (3 * groups)))))
        sentences = np.zeros((0, 2), np.int64)
        chunks = np.stack([_row(rng, groups * spec.columns) for _ in range(rows)]).reshape(rows, 1, groups, -1)
        operands = chunks.repeat(3, axis=1)
    else:
        tokens = int(rng.integers(1, max(2, min(spec.longest, reads // (2 * groups))), endpoint=True))
        lengths = random_lengths(rng, tokens, tokens)
        # both sides have the same sentence lengths
        first = np.cumsum([0, *lengths * 2])[:-1]
        sentences = np.tile(np.stack([first, lengths * 2], axis=1), (groups, 1))
        rows = len(first)
        values = _tokens(rng, 2 * tokens, groups * spec.columns)
        read = {"first": first, "last": first + lengths * 2 - 1}.get(KINDS[kind], np.arange(2 * tokens))
        operands = chunks_of(values, spec.columns).swapaxes(0, 1)[:, read]
    most_rows = int(max(rows, *sentences.sum(axis=1)) if len(sentences) else rows) + 1
    fields = {"kind": kind, "features": features, "rows": rows} | places(
        spec, rng, most_rows, {"source": groups, "destination": groups}
    )
    return {
        "operation": {name: np.array([[value]]) for name, value in fields.items()},
        "sentences": {"first": sentences[:, :1], "length": sentences[:, 1:]},
        "operands": {"value": operands.reshape(-1, spec.columns)},
    }


def _tokens(rng: np.random.Generator, tokens: int, count: int) -> Integers:
    """Rows of tokens: random, small so that means tie, or only extreme values."""
    kinds = (
        rng.integers(Q11_16.minimum, Q11_16.maximum, (tokens, count), endpoint=True),
        rng.integers(-2, 2, (tokens, count), endpoint=True),
        rng.choice([Q11_16.minimum, Q11_16.maximum], (tokens, 1)).repeat(count, axis=1),
    )
    return kinds[int(rng.integers(len(kinds)))]


def _row(rng: np.random.Generator, count: int) -> Integers:
    """A row that is random, constant, one-hot, rounds up to the next octave, or has ties.

    The ties lie half-way between two numbers, near the octave of the largest value.
    """
    low, high = Q11_16.minimum, Q11_16.maximum
    values = rng.integers(low, high, count, endpoint=True)
    step = int(rng.integers(Q11_16.width - NEAR_OCTAVE - 2))
    kinds: list[Integers] = [
        values >> int(rng.integers(Q11_16.width)),
        np.full(count, int(rng.choice([0, 1, -1, low, high, 12345]))),
        rng.choice([low, high, (1 << 22) - 1, 1 - (1 << 22)], count),
        np.where(np.arange(count) == rng.integers(count), rng.choice([low, high, 63, 1, -1, -1]), 0),
        (values >> Q11_16.width - NEAR_OCTAVE - 3 | 1) << step,
    ]
    return kinds[int(rng.choice(len(kinds), p=[0.2, 0.1, 0.1, 0.3, 0.3]))]


def scenario(spec: PoolHeadSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the second without a reset; exact cycles of the first."""
    first, second = two_jobs(spec, rng, words, stimulus)
    return [replace(first, cycles=spec.cycles(first.inputs)), second]
