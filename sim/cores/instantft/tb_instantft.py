"""Bench of `instantft`: a job, a second job on the same cache, a third with a raw cache.

The host driver on golden records the script of each phase.
"""

from __future__ import annotations

import numpy as np

from ....boards.cores.instantft.job import FineTuner
from ....golden.cores.adapters.registers import Command
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.fixed import Integers
from ....golden.lora.adapters import Adapters
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ...phase import Phase
from ..recorded_phases import RecordedCore

RATE = 5243
"""Learning rate of a sample: 0.02 in 18 fraction bits."""
EPOCHS, BATCH = 2, 4
WORDS_PER_SAMPLE = 125
"""Number of the bench's words for which a job gets one more sample."""


def scenario(spec: InstantftSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make three phases: two epochs from reset; an epoch on that cache and an inference; a job with a raw cache.

    A cache on the chip cannot be compared and holds NF4 in the third phase too. Without a cache all phases are in
    Q8.16.

    A job has one sample for each `WORDS_PER_SAMPLE` of `words`.
    """
    mapping, network = spec.mapping, spec.described
    samples = int(np.clip(words // WORDS_PER_SAMPLE, 2, min(64, spec.cache_entries)))
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, samples, rng, spec.labels)
    work = mapping.forward.cycles
    beats = mapping.forward.frozen_beats + mapping.adapter_beats * 4
    sample = work + mapping.raw_beats * 2 + mapping.forward.sample_beats * 2 + mapping.adapter_rows * 8 + 500
    base = int(rng.integers(1 << spec.address - 17)) << 12
    core = RecordedCore(spec, patience=20 * (beats + 3 * samples * sample), base=base)
    host = FineTuner(core, spec, samples, spec.raw_modes[0])
    size = min(BATCH, spec.batch)
    first, second, third = (_epochs(samples, *job, rng) for job in ((EPOCHS, size), (1, size), (EPOCHS, min(3, size))))

    host.load(frozen)
    host.load_adapters(_adapters(spec, rng))
    host.tune(inputs, labels, first, RATE, logits=True)
    midway = core.last_wait, work, work * samples
    host.adapters()
    phases = [core.phase(reset=True, midway=midway)]
    host.tune(inputs, labels, second, RATE, logits=True)
    host.logits(inputs)  # with another region as cache
    core.run(Command.SAVE_ADAPTERS)
    phases.append(core.phase())
    host = FineTuner(core, spec, samples, spec.raw_modes[-1])
    host.forget()
    host.load_adapters(_adapters(spec, rng))
    host.tune(inputs, labels, third, RATE, logits=True)
    core.run(Command.SAVE_ADAPTERS)
    return [*phases, core.phase()]


def _adapters(spec: InstantftSpec, rng: np.random.Generator) -> Adapters:
    """Draw small A and B in Q4.12."""
    shape = spec.mapping.shape
    a = [rng.normal(0, inputs**-0.5, inputs * shape.rank) for inputs in shape.inputs]
    b = rng.normal(0, 0.05, shape.classes * len(shape.inputs) * shape.rank)
    return Adapters(shape, np.rint(np.concatenate([*a, b]) * 4096).astype(np.int64))


def _epochs(samples: int, epochs: int, size: int, rng: np.random.Generator) -> list[list[Integers]]:
    """Draw for each epoch an order of all samples, and cut it into batches."""
    return [np.split(rng.permutation(samples), range(size, samples, size)) for _ in range(epochs)]
