"""Bench of `adapter`: parameters, batches of most samples, of one, of any number; others, and a batch."""

from __future__ import annotations

import numpy as np

from ...golden.fixed import Q4_12
from ...golden.lora.adapter import AdapterBatch, AdapterSpec
from ...golden.lora.adapters import MAXIMUM_RATE, Adapters
from ..phase import Phase
from ..stimulus import random_activations


def random_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Draw small and any numbers, a few at the ends; a rate that changes much or little."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True)) >> int(rng.choice([0, 6]))
    base = random_activations(rng, (count, spec.classes))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def scenario(spec: AdapterSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Parameters; batches of the largest, the smallest, and any size; other parameters, and one more batch."""
    phases = []
    for number in range(2):
        bound = Q4_12.maximum if number else 600
        flat = rng.integers(-bound, bound, spec.mapping.shape.parameters)
        adapters = Adapters(spec.mapping.shape, flat)
        load = spec.load_words(adapters)
        phases.append(Phase({"load": load}, reset=number == 0, cycles=len(load["parameter"])))
        sizes = (spec.batch, 1, int(rng.integers(1, spec.batch, endpoint=True)))
        for count in sizes[: 1 + 2 * (1 - number)]:
            batch = random_batch(spec, rng, count)
            phases.append(Phase(spec.batch_words(batch), spec.tune(adapters, batch), quiet=True))
    return phases
