"""Stimulus of the blocks that run one layer, `conv`, `depthwise` and `fc`."""

from __future__ import annotations

import numpy as np

from ...golden.fixed import Q4_12, Integers
from ...golden.nn.forward import StageIntegers
from ...golden.nn.layer_block import LayerBlockSpec
from ..phase import Phase
from ..stimulus import end_activations, random_activations, tie_activations


def random_parameters(spec: LayerBlockSpec, rng: np.random.Generator, small: bool = True) -> StageIntegers:
    """Draw weights, small enough that most sums do not saturate or of any size, and biases."""
    bound = max(int(Q4_12.maximum / spec.mapping.stages[0].words / 8), 256) if small else Q4_12.maximum
    weight = rng.integers(-bound, bound, spec.stage.weight_shape, endpoint=True)
    return StageIntegers(weight, rng.integers(Q4_12.minimum, Q4_12.maximum, spec.stage.biases, endpoint=True))


def random_samples(spec: LayerBlockSpec, rng: np.random.Generator, count: int) -> Integers:
    """Draw samples of three kinds in turn: any numbers, ones whose sums are often ties, the largest of either sign."""
    shape = (count, *spec.stage.input_shape)
    samples = random_activations(rng, shape)
    samples[1::3] = tie_activations(rng, samples[1::3].shape)
    samples[2::3] = end_activations(rng, samples[2::3].shape)
    return samples


def scenario(spec: LayerBlockSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Parameters, one sample, several; other parameters of any size, several samples."""
    phases = []
    for number in range(2):
        own = random_parameters(spec, rng, small=number == 0)
        load = spec.load_words(own)
        phases.append(Phase(load, reset=number == 0, cycles=spec.mapping.frozen_beats, quiet=True))
        for count in (1, max(words // spec.sample_outputs // 2, 2))[number:]:
            samples = random_samples(spec, rng, count)
            expected = spec.results(own, samples)
            phases.append(Phase(spec.sample_words(samples), expected, cycles=spec.cycles(count), quiet=True))
    return phases
