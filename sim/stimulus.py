"""Building blocks of stimuli: random lengths and activations, and the scenario of simple streaming blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..golden.block import Spec, Words, joined
from ..golden.fixed import Q4_12, Q8_16, Integers
from .phase import Phase

AnySpec = TypeVar("AnySpec", bound=Spec)


def random_lengths(rng: np.random.Generator, words: int, longest: int) -> list[int]:
    """Draw lengths of 1 to `longest`, `words` in all; 1, 2 and the longest are each as frequent as all the others.

    A short packet behind a long one arrives while the block still works on the long one.
    """
    lengths: list[int] = []
    while (left := words - sum(lengths)) > 0:
        length = int(rng.choice([1, min(2, longest), longest, int(rng.integers(1, longest, endpoint=True))]))
        lengths.append(min(length, left))
    return lengths


def random_activations(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """Draw Q8.16 numbers, for each sample (first axis) of any size or small ones; 2 % are 0 or at either end."""
    values = rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True)
    shift = rng.choice([0, 5, 9], (shape[0], *(1 for _ in shape[1:])))
    ends = rng.choice([Q8_16.minimum, Q8_16.maximum, 0], shape)
    return np.where(rng.random(shape) < 0.02, ends, values >> shift)


def tie_activations(rng: np.random.Generator, shape: tuple[int, ...], shift: int = Q4_12.fraction - 1) -> Integers:
    """Draw small multiples of ``2**shift``, by default of half a step behind the product with a Q4.12 integer.

    Sums of such products are often ties: half-way between two numbers behind the rounding.
    """
    return rng.integers(-3, 3, shape, endpoint=True) << shift


def near_tie_activations(rng: np.random.Generator, shape: tuple[int, ...], terms: int) -> Integers:
    """Draw numbers as `tie_activations`, of which one in so many is a power of two beyond.

    Where such a one is multiplied by a last place, the sum of so many terms is beyond a tie by a single bit.
    """
    beyond = rng.random(shape) < 1 / terms
    return tie_activations(rng, shape) + (beyond << rng.integers(Q4_12.fraction - 1, size=shape))


def end_activations(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """Draw the largest Q8.16 numbers of either sign."""
    return rng.choice([Q8_16.minimum, Q8_16.maximum], shape)


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
    before, both = spec.run(first, words), spec.run(joined([first, second]), 2 * words)
    after = {
        port: {name: both[port][name][len(column) :] for name, column in columns.items()}
        for port, columns in before.items()
    }
    cycles = spec.latency + max(len(column) for columns in before.values() for column in columns.values())
    fed = bool(first)
    return [Phase(first, before, reset=True, cycles=cycles, quiet=fed), Phase(second, after, quiet=fed)]
