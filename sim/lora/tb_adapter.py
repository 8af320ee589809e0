"""Bench of `adapter`: parameters and batches; one alone, of the most samples and of one, then several at once."""

from __future__ import annotations

import numpy as np

from ...golden.block import joined
from ...golden.fixed import Q4_12, Q8_16
from ...golden.lora.adapter import AdapterBatch, AdapterSpec
from ...golden.lora.adapters import MAXIMUM_RATE, NOISE_BITS, Adapters
from ...golden.nn.softmax import SoftmaxTables
from ..phase import Phase
from ..stimulus import end_activations, near_tie_activations, random_activations, tie_activations

_HALF = Q4_12.fraction - 1
"""Bits below half a step of what a product with a Q4.12 number is rounded to."""
_TIE_RATE = 16
"""Place of the one bit of the rate with which steps are ties where gradients are, too."""
_CANDIDATES = 64
"""Logits from which those of a sample are taken."""


def random_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw small and any numbers, a few at the ends; a rate that changes much or little."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True)) >> int(rng.choice([0, 6]))
    base = random_activations(rng, (count, spec.classes))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def double_tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw numbers that give with `double_tie_adapters` gradients that are ties, and whose steps are ties as well."""
    read = [tie_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = end_activations(rng, (count, spec.classes))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), 1 << _TIE_RATE)


def close_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw any numbers and rate, and logits near each other: no probability is nearly 0 or 1, and many are ties."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = Q8_16.from_float(rng.normal(0, rng.choice([0.2, 1]), (count, _CANDIDATES, spec.classes)))
    products, fraction = SoftmaxTables().products(base.reshape(-1, spec.classes))
    half = 1 << fraction - Q4_12.fraction - 1
    ties = (products % (2 * half) == half).any(axis=1).reshape(count, _CANDIDATES)
    base = base[np.arange(count), ties.argmax(axis=1)]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw numbers whose sums are often ties, and steps of parameters that are ties, or beyond one by a single bit.

    With a B of halves and with logits at the ends, whose gradients are whole numbers, those of A are multiples of
    2**(shift - 1).
    """
    shift = int(rng.integers(_HALF - 3, _HALF, endpoint=True))
    read = [tie_activations(rng, (count, inputs), shift) for inputs in spec.inputs]
    base = (end_activations if rng.integers(3) else random_activations)(rng, (count, spec.classes))
    bit = 1 << int(rng.integers(NOISE_BITS - shift))
    rate = 1 << NOISE_BITS - shift | int(rng.choice([0, bit], p=[0.2, 0.8]))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def near_tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw numbers whose sums are near ties where A is of last places; any rate."""
    read = [near_tie_activations(rng, (count, inputs), inputs) for inputs in spec.inputs]
    base = random_activations(rng, (count, spec.classes))
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def end_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw the largest numbers of either sign, and any rate."""
    read = [end_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = end_activations(rng, (count, spec.classes))
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def small_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw parameters as in a job."""
    return Adapters(spec.mapping.shape, rng.integers(-600, 600, spec.mapping.shape.parameters))


def first_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw parameters as a job begins with them: B is 0."""
    adapters = small_adapters(spec, rng)
    adapters.b[:] = 0
    return adapters


def double_tie_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw a B of which half is beyond a whole number of steps by a tie's gradient, and a half of its last place."""
    adapters = small_adapters(spec, rng)
    step = 1 << NOISE_BITS - _TIE_RATE + 1
    adapters.b[:] = rng.integers(-4, 4, adapters.b.shape) * step + rng.integers(2, size=adapters.b.shape) * (
        step // 2 + 1
    )
    return adapters


def last_place_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw any B, and an A of a last place at most: a sum is as near to a tie as the numbers that are added."""
    adapters = any_adapters(spec, rng)
    for a in adapters.a:
        a[:] = rng.integers(-1, 1, a.shape, endpoint=True)
    return adapters


def any_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw parameters of any size; in half of the cases those of B are multiples of 0.5, so that sums are ties."""
    flat = rng.integers(Q4_12.minimum, Q4_12.maximum, spec.mapping.shape.parameters, endpoint=True)
    adapters = Adapters(spec.mapping.shape, flat)
    adapters.b[:] &= -1 << int(rng.choice([0, _HALF]))
    return adapters


def scenario(spec: AdapterSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Parameters; batches of the largest, the smallest, and any size; more parameters with batches of each kind.

    Those behind the first parameters come one by one, those behind others at once: the next batch waits while one is
    computed.
    """
    phases: list[Phase] = []
    kinds = (
        (small_adapters, random_batch),
        (any_adapters, tie_batch),
        (first_adapters, close_batch),
        (any_adapters, random_batch),
        (last_place_adapters, near_tie_batch),
        (double_tie_adapters, double_tie_batch),
        (small_adapters, end_batch),
    )
    jobs = max(words // (spec.batch * spec.rows + spec.mapping.adapter_beats), 3)
    for number in range(jobs):
        parameters, draw = kinds[number % len(kinds)]
        adapters = parameters(spec, rng)
        load = spec.load_words(adapters)
        phases.append(Phase({"load": load}, reset=number == 0, cycles=len(load["parameter"])))
        counts = [int(rng.integers(1, spec.batch, endpoint=True)) for _ in range(2)]
        for some in ([spec.batch], [1], counts[:1]) if number == 0 else (counts,):
            batches = [draw(spec, rng, count) for count in some]
            expected = joined([spec.tune(adapters, batch) for batch in batches])
            phases.append(Phase(joined([spec.batch_words(batch) for batch in batches]), expected, quiet=True))
    return phases
