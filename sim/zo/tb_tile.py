"""Bench of `tile`: steps of random length from reset, then from a loaded position."""

from __future__ import annotations

import numpy as np

from ...golden.block import Words
from ...golden.fixed import Q4_12
from ...golden.rng.urng import load_words
from ...golden.zo.tile import AGAIN, TileSpec
from ..phase import Phase


def stimulus(spec: TileSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Steps of three passes of random length: plus, minus, then a random sign or unperturbed."""
    columns: dict[str, list[int]] = {"last": [], "user": []}
    while len(columns["last"]) < words:
        length = int(rng.integers(1, 60))
        for sign, again in ((1, AGAIN), (3, AGAIN), (int(rng.integers(4)), 0)):
            columns["last"] += [0] * (length - 1) + [1]
            columns["user"] += [sign | again] * length
    count = len(columns["last"])
    weights = rng.integers(Q4_12.minimum, Q4_12.maximum, (count, spec.lanes), endpoint=True)
    near = rng.choice([Q4_12.minimum, Q4_12.maximum], weights.shape)
    weights = np.where(rng.random(weights.shape) < 0.1, near, weights)
    return {"i": {"weight": weights} | {name: np.array(column)[:, None] for name, column in columns.items()}}


def scenario(spec: TileSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Steps after reset, a loaded position, steps from there."""
    first, second = stimulus(spec, rng, words), stimulus(spec, rng, words)
    target = int(rng.integers(spec.pezo.period))
    start = spec.pezo.latency + spec.cycles(first["i"]["last"])
    perturbed = {"o": spec.perturbed(second["i"], target)}
    return [
        Phase(first, {"o": spec.perturbed(first["i"], 0)}, reset=True, quiet=True, cycles=start),
        Phase(load_words(spec.pezo.serial(target)), {}),
        Phase(second, perturbed, quiet=True, cycles=spec.cycles(second["i"]["last"])),
    ]
