"""Bench of `zotrain`: training, more training from its end, then training from other deltas.

The host driver on golden records the script of each phase.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Integers
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...phase import Phase
from ..recorded_phases import RecordedCore
from ..zeroth_order_job import TrainingJob, training_phases

RATE = 2e-3
"""Learning rate of a mean loss."""
BATCH = 4
SAMPLES = 10
WORDS_PER_STEP = 400
"""Number of the bench's words for which a job gets one more step."""


def scenario(spec: ZotrainSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make three phases: training from reset; more steps and an inference; other deltas, another eps, and an inference.

    A job has one step for each `WORDS_PER_STEP` of `words`.
    """
    steps, mapping, network = int(np.clip(words // WORDS_PER_STEP, 2, 16)), spec.mapping, spec.described
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, SAMPLES, rng, spec.labels)
    position = int(rng.integers(min(spec.source.period, POSITIONS // 2)))
    work = mapping.forward.cycles
    beats = mapping.forward.frozen_beats + 2 * spec.layout.delta_beats
    step = 2 * BATCH * (work + 300) + 20 * mapping.words + 2000
    base = int(rng.integers(1 << spec.address - 17)) << 12
    core = RecordedCore(spec, patience=20 * (beats + steps * step), base=base)
    host = ZerothOrderTrainer(core, spec)
    (first, settings), (second, others), (third, last) = (_orders(spec, steps, labels, rng) for _ in range(3))
    # interrupt in the middle of a pass of the first steps
    midway = work, 3 * work
    largest, integers = DELTA.maximum >> 6, ZerothOrderJob(NetworkModel(mapping, frozen), spec.source, last)
    integers.total = rng.integers(-largest, largest, integers.total.shape)
    jobs = (
        TrainingJob(frozen, inputs, first, settings, position),
        TrainingJob(frozen, inputs, second, others),
        TrainingJob(frozen, inputs, third, replace(last, eps_shift=7), 5, integers.rows),
    )
    return training_phases(core, host, jobs, steps * BATCH, midway)


def _orders(
    spec: ZotrainSpec, steps: int, labels: Integers, rng: np.random.Generator
) -> tuple[list[StepOrder], StepSettings]:
    """Draw the rate and the samples of each step; the last step has one sample less."""
    sizes = [BATCH] * (steps - 1) + [BATCH - 1]
    drawn = [rng.integers(0, SAMPLES, size) for size in sizes]
    rates, settings = StepSettings(loss=spec.loss).with_rates([RATE] * steps, sizes, PerturbationTable(spec.source))
    return [StepOrder(one, labels[one], rate) for one, rate in zip(drawn, rates, strict=True)], settings
