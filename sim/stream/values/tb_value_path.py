"""Bench of `value_path`: operations of all kinds, buffers, shifts and sizes, saturations; several jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words, joined, last_flags, rows_of
from ....golden.fixed import Q8_16, Integers
from ....golden.stream.forward import SHIFT, WEIGHT_BITS
from ....golden.stream.instruction import Join, Kind
from ....golden.stream.norms import Q11_16
from ....golden.stream.values import activation_function
from ....golden.stream.values.requantize import FORMATS, SUM
from ....golden.stream.values.value_operation import KINDS, OperationSettings, ValueOperation, settings
from ....golden.stream.values.value_path import VALUES, ValuePathSpec
from ...phase import Phase
from ...stimulus import random_lengths, two_jobs, whole_job
from ..memory.chunk_places import places

_WIDE = FORMATS.index(Q11_16)


def stimulus(spec: ValuePathSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations of about `words` words in all; the first are one of each kind."""
    parts: list[dict[str, Words]] = []
    remaining = words
    while remaining > 0:
        kind = KINDS[len(parts)] if len(parts) < len(KINDS) else KINDS[int(rng.integers(len(KINDS)))]
        features = int(rng.choice([1, spec.columns, int(rng.integers(1, _most(spec, remaining), endpoint=True))]))
        chunks = -(-features // spec.columns)
        rows = int(rng.integers(1, max(1, min(6, spec.longest, remaining // (2 * chunks * spec.words))), endpoint=True))
        parts.append(operation(spec, rng, kind, features, rows))
        remaining -= 2 * rows * chunks * spec.words
    return joined(parts)


def _most(spec: ValuePathSpec, words: int) -> int:
    """Largest number of features for an operation: a few memory rows, at most the remaining words."""
    return max(1, min(3 * spec.lanes, spec.features, words * VALUES // 2))


def operation(
    spec: ValuePathSpec, rng: np.random.Generator, kind: Kind, features: int, rows: int, join: Join | None = None
) -> dict[str, Words]:
    """An operation with random settings and `rows` rows a side."""
    plain = rng.random() < 0.5
    names = "shift", "passed_shift", "result_shift", "source_shift", "second_shift"
    shifts = {name: 0 if plain else int(rng.integers(SHIFT.maximum, endpoint=True)) for name in names}
    activation = int(rng.integers(len(activation_function.KINDS)))
    squared = activation_function.KINDS[activation] == "relu-squared"
    if join is None:
        join = Join.NONE if squared else Join(int(rng.choice([Join.NONE, Join.ADD, Join.GATE])))
    lengths = random_lengths(rng, rows, min(rows, 4))
    groups = dict.fromkeys(("source", "second", "destination"), -(-features // spec.columns))
    # factors and inputs of activation functions have 24 bits
    narrow = activation or join == Join.GATE
    drawn = ValueOperation(
        kind=kind,
        activation=max(activation, 1) if kind == Kind.ACTIVATION else activation,
        join=join,
        form=int(rng.choice([number for number in range(len(FORMATS)) if number != _WIDE or not narrow])),
        biased=int(rng.integers(2)),
        fraction=int(rng.integers(WEIGHT_BITS)),
        features=features,
        rows=rows,
        sentences=len(lengths),
        longest=max(lengths),
        **shifts,
        **places(spec, rng, 2 * rows, groups),
    )
    return _inputs(spec, rng, drawn, lengths)


def _inputs(spec: ValuePathSpec, rng: np.random.Generator, job: ValueOperation, lengths: list[int]) -> dict[str, Words]:
    """Words of all inputs of an operation."""
    chosen, (groups, _) = settings(job), spec.chunks(job)
    chunks = 2 * job.rows * len(groups)
    vectors = (job.longest if chosen.positions else 1) if chosen.biased else 0
    words = -(-job.features // VALUES)
    shape = vectors * words, VALUES
    sides = {side: _sized(rng, Q8_16.minimum, Q8_16.maximum, shape) for side in ("plus", "minus")}
    last = np.tile(last_flags([words]), (vectors, 1))
    first = np.tile(np.cumsum([0, *lengths[:-1]]), 2) + np.repeat([0, job.rows], len(lengths))
    times = job.longest if chosen.positions else 0
    sentences = {"first": np.tile(first, times), "length": np.tile(np.tile(lengths, 2), times)}
    return {
        "operation": {name: np.array([[number]]) for name, number in job._asdict().items()},
        "sums": {"sum": _sums(rng, job, (chunks * spec.words if chosen.sums else 0, VALUES))},
        "biases": sides | {"last": last},
        "sentences": {name: column[:, None] for name, column in sentences.items()},
        "operands": _operands(spec, rng, job, chosen, chunks),
    }


def _sized(rng: np.random.Generator, least: int, most: int, shape: tuple[int, ...]) -> Integers:
    """Random numbers of all magnitudes, and both extremes."""
    values = rng.integers(least, most, shape, endpoint=True) >> rng.integers(0, most.bit_length(), shape)
    return np.where(rng.random(shape) < 0.1, rng.choice([least, most, 0], shape), values)


def _sums(rng: np.random.Generator, job: ValueOperation, shape: tuple[int, ...]) -> Integers:
    """Sums whose results lie within, near and beyond the result's format."""
    near = _sized(rng, Q8_16.minimum, Q8_16.maximum, shape) << job.fraction
    return np.where(
        rng.random(shape) < 0.8, near >> rng.integers(0, 12, shape), _sized(rng, SUM.minimum, SUM.maximum, shape)
    )


def _operands(
    spec: ValuePathSpec, rng: np.random.Generator, job: ValueOperation, chosen: OperationSettings, chunks: int
) -> Words:
    """Interleave the first and second operand of each chunk."""
    gates = job.kind == Kind.GATE or (job.kind == Kind.LINEAR and job.join == Join.GATE)
    kinds = [0] * (not chosen.sums) + [1] * bool(chosen.joined)
    form = Q8_16 if gates or job.kind == Kind.ACTIVATION else Q11_16
    value = _sized(rng, form.minimum, form.maximum, (chunks * len(kinds), spec.columns))
    return {"value": value, "tag": np.tile(np.array(kinds, np.int64), chunks)[:, None]}


def scenario(spec: ValuePathSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of many operations; then many rows of each kind, with exact cycles."""
    phases = two_jobs(spec, rng, words, stimulus)
    rows = min(spec.longest, words // 4)
    for kind, join in zip((*KINDS, Kind.LINEAR), (Join.NONE, *(Join.ADD,) * len(KINDS)), strict=True):
        inputs = operation(spec, rng, kind, spec.columns + 1, rows, join)
        job = rows_of(inputs["operation"], ValueOperation)[0]
        phases.append(whole_job(spec, inputs, None if kind == Kind.POSITIONS else spec.cycles(job)))
    return phases
