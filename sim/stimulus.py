"""Building blocks of stimuli: random lengths, activations, and the scenario of simple streaming blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..golden.block import Spec, Words, joined
from ..golden.fixed import Q4_12, Q8_16, Integers
from .phase import Phase

AnySpec = TypeVar("AnySpec", bound=Spec)
ALL = 1 << 40
"""Number of output words that no job reaches."""


def random_lengths(rng: np.random.Generator, words: int, longest: int) -> list[int]:
    """Random lengths of 1 to `longest` with sum `words`; a quarter each are 1, 2, `longest` and uniform.

    So short packets arrive while the block still works on a long one.
    """
    lengths: list[int] = []
    while (remaining := words - sum(lengths)) > 0:
        length = int(rng.choice([1, min(2, longest), longest, int(rng.integers(1, longest, endpoint=True))]))
        lengths.append(min(length, remaining))
    return lengths


def random_activations(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """Q8.16 numbers, all large or all small within a sample (first axis); 2 % are 0 or extreme."""
    values = rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True)
    shift = rng.choice([0, 5, 9], (shape[0], *(1 for _ in shape[1:])))
    ends = rng.choice([Q8_16.minimum, Q8_16.maximum, 0], shape)
    return np.where(rng.random(shape) < 0.02, ends, values >> shift)


def tie_activations(rng: np.random.Generator, shape: tuple[int, ...], shift: int = Q4_12.fraction - 1) -> Integers:
    """Small multiples of ``2**shift``, by default half a rounding step of a product with a Q4.12 integer.

    Sums of such products often tie.
    """
    return rng.integers(-3, 3, shape, endpoint=True) << shift


def near_tie_activations(rng: np.random.Generator, shape: tuple[int, ...], terms: int) -> Integers:
    """As `tie_activations`, but on average one number in `terms` is off by a power of two.

    Its product with 1 unit in the last place moves a sum of `terms` products off a tie by one bit.
    """
    beyond = rng.random(shape) < 1 / terms
    return tie_activations(rng, shape) + (beyond << rng.integers(Q4_12.fraction - 1, size=shape))


def end_activations(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """The extreme Q8.16 numbers of either sign."""
    return rng.choice([Q8_16.minimum, Q8_16.maximum], shape)


def two_jobs(
    spec: AnySpec,
    rng: np.random.Generator,
    words: int,
    stimulus: Callable[[AnySpec, np.random.Generator, int], dict[str, Words]],
) -> list[Phase]:
    """A job after reset, then a second job without a reset.

    `stimulus` gives the random input of a job, about `words` words; all resulting words are expected. A source has no
    input, and `words` words are expected.
    """
    first, second = stimulus(spec, rng, words), stimulus(spec, rng, words)
    fed = bool(first)
    before = spec.run(first, ALL if fed else words)
    both = spec.run(joined([first, second]), ALL if fed else 2 * words)
    after = {
        port: {name: both[port][name][len(column) :] for name, column in columns.items()}
        for port, columns in before.items()
    }
    return [Phase(first, before, reset=True, quiet=fed), Phase(second, after, quiet=fed)]


def whole_job(spec: Spec, inputs: dict[str, Words], cycles: int | None = None, reset: bool = True) -> Phase:
    """A job after reset, with all words that follow from its inputs."""
    return Phase(inputs, spec.run(inputs, ALL), reset=reset, cycles=cycles, quiet=True)
