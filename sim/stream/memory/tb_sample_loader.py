"""Bench of `sample_loader`: passes of all sizes into both memories, with full and padded rows, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Q8_16
from ....golden.stream.memory.sample_loader import UNIT, SampleLoaderSpec, Status
from ....golden.stream.memory.samples import ROW, ROW_BEATS, token_rows
from ...phase import Phase
from ...stimulus import two_jobs


def _operation(spec: SampleLoaderSpec, rng: np.random.Generator, number: int, words: int) -> dict[str, Words]:
    """An operation of at most `words` beats; every fifth is refused."""
    wide, most = number % 2, min(words * 16 // 3, ROW * 4)
    width, memory = (spec.columns, spec.wide_rows) if wide else (spec.lanes, spec.rows)
    features = int(rng.choice([1, UNIT, UNIT + 1, 2 * width, ROW, int(rng.integers(1, max(most, 2)))]))
    features = min(features, memory // 2 * width)
    lines = -(-features // width)
    most = memory // lines
    stride = int(rng.choice([most, int(rng.integers(2, max(2, min(most, spec.sums)), endpoint=True))]))
    room = min(stride, spec.sums, 4 + words // 3) // 2
    rows = int(rng.choice([1, room, int(rng.integers(1, room, endpoint=True))]))
    if number in (2, 3):
        # largest number of features that memory and bench length allow
        rows, stride = 1, 2
        features = min(memory // stride * width, words * ROW // ROW_BEATS)
        lines = -(-features // width)
    if number % 5 == 4:
        features, rows = ((features, min(stride, spec.sums) // 2 + 1), (0, rows), (features, 0))[number // 5 % 3]
    fields = {"rows": rows, "features": features, "wide": wide, "stride": stride}
    fields["base"] = int(rng.integers(0, memory - lines * stride, endpoint=True))
    data = np.zeros((0, 4), np.int64)
    if spec.status(rows, features, stride) == Status.LOADED:
        values = rng.integers(Q8_16.minimum, Q8_16.maximum, (rows, features), endpoint=True)
        data = token_rows(values).view("<u4").reshape(-1, 4).astype(np.int64)
    return {"operation": {name: np.array([[value]]) for name, value in fields.items()}, "beats": {"data": data}}


def _job(spec: SampleLoaderSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    parts: list[dict[str, Words]] = []
    while len(parts) < 6 or sum(len(part["beats"]["data"]) for part in parts) < words:
        parts.append(_operation(spec, rng, len(parts), words // 2))
    return joined(parts)


def _cycles(spec: SampleLoaderSpec, operations: Words) -> int:
    """Sum of the cycles of all operations."""
    sizes = zip(*(operations[name][:, 0].tolist() for name in ("rows", "features", "stride")), strict=True)
    return sum(
        # a refusal takes the cycle of the first beat
        spec.cycles(rows, features) if spec.status(rows, features, stride) == Status.LOADED else spec.latency + 1
        for rows, features, stride in sizes
    )


def scenario(spec: SampleLoaderSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs; the first has an exact cycle count, if the loader can take a beat per cycle."""
    first, second = two_jobs(spec, rng, words, _job)
    cycles = _cycles(spec, first.inputs["operation"]) if spec.columns >= UNIT else None
    return [replace(first, cycles=cycles), second]
