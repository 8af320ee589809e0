"""Building blocks of stimuli: random lengths and activations, and the scenario of simple streaming blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..golden.block import Spec, Words
from .phase import Phase

AnySpec = TypeVar("AnySpec", bound=Spec)


def two_jobs(
    spec: AnySpec,
    rng: np.random.Generator,
    words: int,
    stimulus: Callable[[AnySpec, np.random.Generator, int], dict[str, Words]],
) -> list[Phase]:
    """Make one job after reset, then a second one without a reset.

    Parameters
    ----------
    spec : Spec
        Golden's parameters; its `run` gives what is expected, its `latency` the cycles of the first job.
    rng : Generator
        Source of all random words.
    words : int
        About how many words a job gives.
    stimulus : callable
        Random input of one job, by spec, generator and number of words. It is empty for a source.
    """
    first, second = stimulus(spec, rng, words), stimulus(spec, rng, words)
    joined = {
        port: {name: np.concatenate([column, second[port][name]]) for name, column in columns.items()}
        for port, columns in first.items()
    }
    before, both = spec.run(first, words), spec.run(joined, 2 * words)
    after = {
        port: {name: both[port][name][len(column) :] for name, column in columns.items()}
        for port, columns in before.items()
    }
    cycles = spec.latency + max(len(column) for columns in before.values() for column in columns.values())
    fed = bool(first)
    return [Phase(first, before, reset=True, cycles=cycles, quiet=fed), Phase(second, after, quiet=fed)]
