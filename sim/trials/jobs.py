"""Jobs of a core's stress tests by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...golden.cores.core import CoreSpec
from ..compiled.playing import ShortJob
from .contract import trials_of


class Jobs(Mapping[str, ShortJob]):
    """Jobs by name, made on access.

    Parameters
    ----------
    spec : CoreSpec
    seed : int
        Seed of the first job; each further job has the next number.
    variations : mapping
        Variation of each job, by name.
    """

    def __init__(self, spec: CoreSpec, seed: int, variations: Mapping[str, Any]) -> None:
        self._spec, self._variations = spec, variations
        self._seeds = {name: seed + number for number, name in enumerate(variations)}
        self._made: dict[str, ShortJob] = {}

    def __getitem__(self, name: str) -> ShortJob:
        if name not in self._made:
            job = trials_of(self._spec).job
            self._made[name] = job(self._spec, self._seeds[name], self._variations[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._variations)

    def __len__(self) -> int:
        return len(self._variations)


def short_jobs(spec: CoreSpec, seed: int = 1) -> Jobs:
    """Jobs covering every part of a core; the first has the seed `seed`."""
    return Jobs(spec, seed, trials_of(spec).short(spec))


def edge_jobs(spec: CoreSpec, seed: int) -> Jobs:
    """Jobs with values at edges that random jobs rarely reach."""
    return Jobs(spec, seed, trials_of(spec).edge(spec))


def long_jobs(spec: CoreSpec, seed: int) -> Jobs:
    """Jobs with very many steps, for counters and addresses."""
    return Jobs(spec, seed, trials_of(spec).long(spec))


def random_jobs(spec: CoreSpec, seed: int, count: int) -> Jobs:
    """Jobs with random settings and more data, for rare values; settings and jobs follow from `seed`."""
    trials, rng = trials_of(spec), np.random.default_rng([seed, count])
    return Jobs(spec, seed + 1000, {f"random {number}": trials.random(spec, rng) for number in range(count)})
