"""Jobs of a core's trials by name, of all that its room varies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...golden.cores.core import CoreSpec
from ..compiled.playing import ShortJob
from .contract import trials_of

Jobs = dict[str, ShortJob]


def short_jobs(spec: CoreSpec, seed: int = 1) -> Jobs:
    """Make jobs that together reach every part of a core; `seed` is that of the first."""
    return _made(spec, seed, trials_of(spec).short(spec))


def edge_jobs(spec: CoreSpec, seed: int) -> Jobs:
    """Make jobs whose values lie at edges, for what random values rarely show."""
    return _made(spec, seed, trials_of(spec).edge(spec))


def long_jobs(spec: CoreSpec, seed: int) -> Jobs:
    """Make jobs of very many steps, for counters and addresses."""
    return _made(spec, seed, trials_of(spec).long(spec))


def random_jobs(spec: CoreSpec, seed: int, count: int) -> Jobs:
    """Make jobs with random settings and more data, for what only rare values show.

    Parameters
    ----------
    spec : CoreSpec
    seed : int
        Of the settings, and of each job.
    count : int
        How many.
    """
    trials, rng = trials_of(spec), np.random.default_rng([seed, count])
    return _made(spec, seed + 1000, {f"random {number}": trials.random(spec, rng) for number in range(count)})


def _made(spec: CoreSpec, seed: int, variations: Mapping[str, Any]) -> Jobs:
    job = trials_of(spec).job
    return {name: job(spec, seed + at, one) for at, (name, one) in enumerate(variations.items())}
