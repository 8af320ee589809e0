"""Bench of `adapter`: parameters, batches of most samples, of one, of any number; others, and more batches."""

from __future__ import annotations

import numpy as np

from ...golden.fixed import Q4_12
from ...golden.lora.adapter import AdapterBatch, AdapterSpec
from ...golden.lora.adapters import MAXIMUM_RATE, NOISE_BITS, Adapters
from ..phase import Phase
from ..stimulus import end_activations, random_activations, tie_activations

_HALF = Q4_12.fraction - 1
"""Bits below half a step of what a product with a Q4.12 number is rounded to."""


def random_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw small and any numbers, a few at the ends; a rate that changes much or little."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True)) >> int(rng.choice([0, 6]))
    base = random_activations(rng, (count, spec.classes))
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


def end_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw the largest numbers of either sign, and any rate."""
    read = [end_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = end_activations(rng, (count, spec.classes))
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def small_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw parameters as in a job."""
    return Adapters(spec.mapping.shape, rng.integers(-600, 600, spec.mapping.shape.parameters))


def any_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Draw parameters of any size; in half of the cases those of B are multiples of 0.5, so that sums are ties."""
    flat = rng.integers(Q4_12.minimum, Q4_12.maximum, spec.mapping.shape.parameters, endpoint=True)
    adapters = Adapters(spec.mapping.shape, flat)
    adapters.b[:] &= -1 << int(rng.choice([0, _HALF]))
    return adapters


def scenario(spec: AdapterSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Parameters; batches of the largest, the smallest, and any size; more parameters with a batch of each kind."""
    phases: list[Phase] = []
    jobs = max(words // (spec.batch * spec.rows + spec.mapping.adapter_beats), 3)
    kinds = (
        (small_adapters, random_batch),
        (any_adapters, tie_batch),
        (any_adapters, random_batch),
        (any_adapters, tie_batch),
        (small_adapters, end_batch),
    )
    for number in range(jobs):
        parameters, draw = kinds[number % len(kinds)]
        adapters = parameters(spec, rng)
        load = spec.load_words(adapters)
        phases.append(Phase({"load": load}, reset=number == 0, cycles=len(load["parameter"])))
        anything = int(rng.integers(1, spec.batch, endpoint=True))
        for count in (spec.batch, 1, anything) if number == 0 else (anything,):
            batch = draw(spec, rng, count)
            phases.append(Phase(spec.batch_words(batch), spec.tune(adapters, batch), quiet=True))
    return phases
