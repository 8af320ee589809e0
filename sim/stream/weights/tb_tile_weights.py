"""Bench of `tile_weights`: tensors of all kinds, with error beats and corrections; a matrix at full speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.block import Words, joined
from ....golden.stream.frozen_base import BLOCK, WEIGHT
from ....golden.stream.weights.tile_dequant import MATRICES, TensorKind
from ....golden.stream.weights.tile_weights import OFFSET, TILE_OFFSET, OffsetKind, TensorOperation, TileWeightsSpec
from ...phase import Phase
from ...stimulus import whole_job
from .tb_tile_dequant import random_beats, random_beats_of

_MATRIX = (OffsetKind.NONE, OffsetKind.TILES, OffsetKind.CORRECTIONS)
_VECTOR = (OffsetKind.NONE, OffsetKind.TILES, OffsetKind.ROW)
_DENSITIES = ("none", "few", "many", "all", "wrong")


def tensor(
    spec: TileWeightsSpec, rng: np.random.Generator, operation: TensorOperation, density: str = "none", error: float = 0
) -> dict[str, Words]:
    """Input words of a tensor; `density` names how many corrections, `error` is the probability of an error beat."""
    corrections = _corrections(spec, rng, operation, density)
    operation = operation._replace(corrections=len(corrections["place"]))
    needs = spec.needs(operation)
    shape = (needs["offsets"], spec.numbers)
    form = TILE_OFFSET if operation.matrix and operation.offsets == OffsetKind.TILES else OFFSET
    # mostly small offsets, so that few weights saturate
    small = rng.integers(0, form.width, (needs["offsets"], 1))
    offsets = {
        side: rng.integers(form.minimum, form.maximum, shape, endpoint=True) >> small for side in ("plus", "minus")
    }
    return {
        "operation": {name: np.array([[value]]) for name, value in operation._asdict().items()},
        "beats": {
            "data": random_beats(rng, needs["beats"]),
            "error": (rng.random((needs["beats"], 1)) < error).astype(np.int64),
        },
        "corrections": corrections,
        "offsets": offsets,
    }


def _corrections(spec: TileWeightsSpec, rng: np.random.Generator, operation: TensorOperation, density: str) -> Words:
    size = spec.tiles(operation) * spec.weights if operation.matrix else 0
    rate = {"none": 0.0, "few": 2 / spec.weights, "many": 0.2, "all": 1.0, "wrong": 4 / spec.weights}[density]
    place = np.flatnonzero(rng.random(size) < rate)
    error = np.zeros(len(place), np.int64)
    if density == "wrong" and len(place):
        # one fault: an address repeated, decreasing or beyond the end, or a read error
        where = int(rng.integers(len(place)))
        kind = rng.integers(4)
        if kind == 3:
            error[where] = 1
        else:
            place[where] = (place[max(where - 1, 0)], rng.integers(size), size + rng.integers(9 * size))[kind]
    value = rng.integers(WEIGHT.minimum, WEIGHT.maximum, (len(place), 1), endpoint=True)
    return {"place": place[:, None], "value": value, "error": error[:, None]}


def random_tensor(spec: TileWeightsSpec, rng: np.random.Generator) -> dict[str, Words]:
    kind = TensorKind(int(rng.integers(len(TensorKind))))
    offsets = OffsetKind(rng.choice(_MATRIX if kind in MATRICES else _VECTOR))
    density = str(rng.choice(_DENSITIES, p=[0.3, 0.25, 0.15, 0.05, 0.25])) if kind in MATRICES else "none"
    beats = random_beats_of(spec.dequant, rng, kind)
    operation = TensorOperation(*beats, offsets, first=int(rng.integers(spec.numbers)))
    return tensor(spec, rng, operation, density, rng.choice([0, 0.01]))


def scenario(spec: TileWeightsSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """All kinds once, then random tensors, then a matrix for which the bench demands one output beat in every cycle."""
    first = []
    for kind in TensorKind:
        for number, offsets in enumerate(_MATRIX if kind in MATRICES else _VECTOR):
            beats = random_beats_of(spec.dequant, rng, kind)
            density = _DENSITIES[(2 * kind + number) % len(_DENSITIES)]
            first.append(tensor(spec, rng, TensorOperation(*beats, offsets), density))
    second: list[dict[str, Words]] = []
    while sum(len(words_of["beats"]["data"]) for words_of in second) < words:
        second.append(random_tensor(spec, rng))
    parts = [joined(first), joined(second)]
    records = max(words * spec.lanes // (BLOCK * spec.width), 1)
    matrix = TensorOperation(TensorKind.NF4, records, records, BLOCK // spec.lanes, OffsetKind.TILES)
    parts.append(tensor(spec, rng, matrix))
    phases = [whole_job(spec, part, reset=not number) for number, part in enumerate(parts)]
    cycles = spec.latency + len(phases[-1].expected["w"]["side"])
    return [*phases[:-1], replace(phases[-1], cycles=cycles if spec.keeps_up else None)]
