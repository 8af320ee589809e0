"""Bench of `adapter`: loads and batches of all sizes, first one by one, then back to back."""

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
"""Number of bits below half a rounding step of a product with a Q4.12 number."""
_TIE_RATE = 16
"""Bit number: at the rate 2**_TIE_RATE a gradient that ties makes a parameter step that ties."""
_CANDIDATES = 64
"""Number of candidate logits for each sample."""


def random_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Random activations, large, small and a few extreme; a large or small rate."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True)) >> int(rng.choice([0, 6]))
    base = random_activations(rng, (count, spec.classes))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def double_tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Batch for `double_tie_adapters`: both gradients and parameter steps are ties."""
    read = [tie_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = end_activations(rng, (count, spec.classes))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), 1 << _TIE_RATE)


def close_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Logits close together: no probability near 0 or 1, and many ties; random rate."""
    read = [random_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = Q8_16.from_float(rng.normal(0, rng.choice([0.2, 1]), (count, _CANDIDATES, spec.classes)))
    products, fraction = SoftmaxTables().products(base.reshape(-1, spec.classes))
    half = 1 << fraction - Q4_12.fraction - 1
    ties = (products % (2 * half) == half).any(axis=1).reshape(count, _CANDIDATES)
    base = base[np.arange(count), ties.argmax(axis=1)]
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Sums are often ties; parameter steps are ties or a single bit above.

    If B is a multiple of a half and logits are extreme, gradients at the hidden values are whole numbers, and gradients
    of A multiples of 2**(shift - 1).
    """
    shift = int(rng.integers(_HALF - 3, _HALF, endpoint=True))
    read = [tie_activations(rng, (count, inputs), shift) for inputs in spec.inputs]
    base = (end_activations if rng.integers(3) else random_activations)(rng, (count, spec.classes))
    bit = 1 << int(rng.integers(NOISE_BITS - shift))
    rate = 1 << NOISE_BITS - shift | int(rng.choice([0, bit], p=[0.2, 0.8]))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def near_tie_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Sums near ties, for an A of 0 and +-1 unit in the last place; random rate."""
    read = [near_tie_activations(rng, (count, inputs), inputs) for inputs in spec.inputs]
    base = random_activations(rng, (count, spec.classes))
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def end_batch(spec: AdapterSpec, rng: np.random.Generator, count: int) -> AdapterBatch:
    """Extreme numbers of either sign, and a random rate."""
    read = [end_activations(rng, (count, inputs)) for inputs in spec.inputs]
    base = end_activations(rng, (count, spec.classes))
    rate = int(rng.integers(1, MAXIMUM_RATE, endpoint=True))
    return AdapterBatch(read, base, rng.integers(0, spec.mapping.labels, count), rate)


def small_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Parameters of typical size."""
    return Adapters(spec.mapping.shape, rng.integers(-600, 600, spec.mapping.shape.parameters))


def first_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Initial parameters of a job: B is 0."""
    adapters = small_adapters(spec, rng)
    adapters.b[:] = 0
    return adapters


def double_tie_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """B in whole steps, half of its numbers off by the gradient of a tie plus half its last place."""
    adapters = small_adapters(spec, rng)
    step = 1 << NOISE_BITS - _TIE_RATE + 1
    adapters.b[:] = rng.integers(-4, 4, adapters.b.shape) * step + rng.integers(2, size=adapters.b.shape) * (
        step // 2 + 1
    )
    return adapters


def last_place_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Random B, and A of 0 and +-1 unit in the last place: sums are as close to ties as their addends."""
    adapters = any_adapters(spec, rng)
    for a in adapters.a:
        a[:] = rng.integers(-1, 1, a.shape, endpoint=True)
    return adapters


def any_adapters(spec: AdapterSpec, rng: np.random.Generator) -> Adapters:
    """Parameters of any size; in half of the cases B is a multiple of 0.5, which makes sums ties."""
    flat = rng.integers(Q4_12.minimum, Q4_12.maximum, spec.mapping.shape.parameters, endpoint=True)
    adapters = Adapters(spec.mapping.shape, flat)
    adapters.b[:] &= -1 << int(rng.choice([0, _HALF]))
    return adapters


def scenario(spec: AdapterSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Load parameters; batches of the largest, the smallest and a random size; then further parameters and batches.

    Batches after the first parameters come one by one, later batches back to back: the next waits during computation.
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
        for sizes in ([spec.batch], [1], counts[:1]) if number == 0 else (counts,):
            batches = [draw(spec, rng, count) for count in sizes]
            expected = joined([spec.tune(adapters, batch) for batch in batches])
            phases.append(Phase(joined([spec.batch_words(batch) for batch in batches]), expected, quiet=True))
    return phases
