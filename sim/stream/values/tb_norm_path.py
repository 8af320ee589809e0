"""Bench of `norm_path`: norms of few and many rows and features, in either memory."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words, joined
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.norm_path import NormPathSpec
from ...phase import Phase
from ...stimulus import two_jobs
from ..memory.chunk_places import places
from .tb_layer_norm import operation


def _norm(spec: NormPathSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    features = int(rng.choice([1, spec.columns, spec.columns + 1, min(5 * spec.columns, spec.features)]))
    features = int(rng.choice([features, int(rng.integers(1, min(spec.features, 8 * spec.columns), endpoint=True))]))
    groups = -(-features // spec.columns)
    rows = int(rng.integers(1, max(min(words // (2 * groups), spec.sums // 2), 1), endpoint=True))
    norm = operation(spec.norm, rng, features, 2 * rows)
    fields = {name: column for name, column in norm["operation"].items() if name != "rows"}
    addresses = {"rows": rows} | places(spec, rng, 2 * rows, {"source": groups, "destination": groups})
    values = norm["i"]["value"].reshape(2 * rows, -1)
    padding = rng.integers(Q11_16.minimum, Q11_16.maximum, (2 * rows, groups * spec.columns - values.shape[1]))
    return {
        "operation": fields | {name: np.array([[value]], np.int64) for name, value in addresses.items()},
        "parameters": norm["parameters"],
        "operands": {"value": np.concatenate([values, padding], axis=1).reshape(-1, spec.columns)},
    }


def stimulus(spec: NormPathSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    parts, remaining = list[dict[str, Words]](), words
    while remaining > 0:
        parts.append(_norm(spec, rng, remaining))
        remaining -= len(parts[-1]["operands"]["value"])
    return joined(parts)


def scenario(spec: NormPathSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    return two_jobs(spec, rng, words, stimulus)
