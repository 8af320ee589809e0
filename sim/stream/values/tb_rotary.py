"""Bench of `rotary`: heads of all widths, sentences of all lengths, arbitrary rotations; two jobs."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words, joined
from ....golden.fixed import Q8_16, Format, Integers
from ....golden.stream.attention import HALVES, Q6_12, ROTATION
from ....golden.stream.values.chunk_unit import operations_of
from ....golden.stream.values.rotary import LEAST_COLUMNS, TURN_LANES, RotarySpec
from ...phase import Phase
from ...stimulus import random_lengths, two_jobs, whole_job
from ..memory.chunk_places import places


def stimulus(spec: RotarySpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Operations with about `words` chunks in all; the first has the widest heads."""
    parts, budget = list[dict[str, Words]](), words
    least = max(HALVES, spec.columns)
    while budget > 0:
        width = least * int(rng.integers(1, spec.width // least, endpoint=True)) if parts else spec.width
        tokens = int(rng.integers(1, max(1, min(6, spec.longest, budget * spec.columns // (4 * width))), endpoint=True))
        key_heads = int(rng.integers(1, 3))
        parts.append(operation(spec, rng, (key_heads * int(rng.integers(1, 4)), key_heads, width), tokens))
        budget -= len(parts[-1]["operands"]["value"])
    return joined(parts)


def operation(
    spec: RotarySpec,
    rng: np.random.Generator,
    heads: tuple[int, int, int],
    tokens: int,
    lengths: list[int] | None = None,
) -> dict[str, Words]:
    """An operation; `heads` = (query heads, key heads, width), `tokens` are the tokens of each side."""
    lengths = lengths or random_lengths(rng, tokens, tokens)
    count, key_count, width = heads
    longest, first = max(lengths), np.cumsum([0, *lengths * 2])[:-1]
    groups = {"queries": count * width // spec.columns, "keys": key_count * width // spec.columns}
    fields = dict(zip(("heads", "key_heads", "width"), heads, strict=True))
    fields |= {"longest": longest, "sentences": len(first)}
    fields |= places(spec, rng, 2 * tokens, groups, either=False)
    values = [
        _values(rng, (2 * tokens, chunks * spec.columns), form)
        for chunks, form in zip(groups.values(), (Q8_16, Q6_12), strict=True)
    ]
    rotation = rng.integers(ROTATION.minimum, ROTATION.maximum, (longest, 2, width // 2), endpoint=True)
    ends = np.where(rng.random(rotation.shape) < 0.5, ROTATION.minimum, ROTATION.maximum)
    rotation = np.where(rng.random((longest, 1, 1)) < 0.3, ends, rotation)
    positions = [position for position in range(longest) for length in lengths * 2 if length > position]
    values = _nearly_ties(rng, rotation, values, positions)
    rotation = rotation.reshape(longest, -1, TURN_LANES)
    above = rng.integers(-32, 32, rotation.shape) << ROTATION.width
    return {
        "operation": {name: np.array([[value]]) for name, value in fields.items()},
        "sentences": {
            "first": np.tile(first[:, None], (longest, 1)),
            "length": np.tile(np.array(lengths * 2)[:, None], (longest, 1)),
        },
        "turns": {"plus": (above + (rotation & (1 << ROTATION.width) - 1)).reshape(-1, TURN_LANES)},
        "operands": {"value": np.concatenate(values, axis=1).reshape(-1, spec.columns)},
    }


def _values(rng: np.random.Generator, shape: tuple[int, int], form: Format) -> Integers:
    """Rows: random, small so that results tie, or extreme."""
    values = rng.integers(form.minimum, form.maximum, shape, endpoint=True)
    kind = rng.integers(3, size=(shape[0], 1))
    return np.select([kind == 0, kind == 1], [values, values >> 14], rng.choice([form.minimum, form.maximum], shape))


def _nearly_ties(
    rng: np.random.Generator, rotation: Integers, values: list[Integers], positions: list[int]
) -> list[Integers]:
    """Change some rotations and their rows so that results tie, exactly or but for a low bit.

    The low bit is far below the result's last place: only next to a tie does it change a result.
    """
    chosen, tie = rng.random((len(rotation), 1, 1)) < 0.3, ROTATION.fraction - 1
    exponents = rng.integers(tie, size=rotation.shape, endpoint=True)
    rotation[:] = np.where(chosen, rng.choice([-1, 1], rotation.shape) << exponents, rotation)
    changed = []
    for rows in values:
        halves = rows.reshape(len(rows), -1, *rotation.shape[1:])
        ties = rng.integers(2, size=(*halves.shape[:2], 1, halves.shape[-1])) == np.arange(2)[:, None]
        powers = np.where(ties, tie - exponents[positions, None, :1], rng.integers(tie + 1, size=halves.shape))
        nearly = rng.choice([-1, 1], halves.shape) << powers
        changed.append(np.where(chosen[positions, None], nearly, halves).reshape(rows.shape))
    return changed


def scenario(spec: RotarySpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, the second without a reset; then a sentence on each side, with exact cycles."""
    jobs, tokens = two_jobs(spec, rng, words, stimulus), min(5, spec.longest)
    whole = operation(spec, rng, (2, 1, spec.width), tokens, [tokens])
    cycles = spec.cycles(operations_of(whole["operation"])[0], 2 * tokens) if spec.columns >= LEAST_COLUMNS else None
    return [*jobs, whole_job(spec, whole, cycles)]
