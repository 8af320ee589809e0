"""Bench of `zostream`: training, more training and an inference, then another network.

The host driver on golden records the script of each phase.
"""

from __future__ import annotations

import numpy as np

from ....boards.cores.zostream.job import StreamTrainer
from ....golden.cores.zostream.golden_core import GoldenZostream
from ....golden.cores.zostream.random_network import RandomJob, random_images
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.rng.perturbation import POSITIONS
from ....golden.stream.machine.cost_model import StepCost
from ....golden.zo.split import Split
from ...phase import Phase
from ..recorded_phases import RecordedCore
from ..zeroth_order_job import TrainingJob, training_phases

BATCH, SAMPLES, LONGEST = 4, 6, 7
CUT = 8
SPLIT = Split(CUT, 1, 2)
"""Perturbations of the second network, which has a cut."""
WORDS_PER_STEP = 400
"""Number of the bench's words for which a job gets one more step."""


def scenario(spec: ZostreamSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Three phases: training from reset; more steps and an inference; other deltas and another network.

    A job has a step for each `WORDS_PER_STEP` of `words`.
    """
    steps = int(np.clip(words // WORDS_PER_STEP, 2, 8))
    position = int(rng.integers(min(spec.generator.period, POSITIONS // 2)))
    networks = random_images(spec, rng, "encoder"), random_images(spec, rng, "decoder", sensitive=9, cut=CUT)
    sizes = {"samples": SAMPLES, "batch": BATCH, "longest": min(LONGEST, spec.tokens)}
    encoder = RandomJob(spec, networks[0], rng, **sizes, steps=2 * steps, position=position)
    decoder = RandomJob(spec, networks[1], rng, **sizes, steps=steps, eps_shift=9, scalars=True, split=SPLIT)
    costs = (StepCost(images.model.transformer, (LONGEST,) * BATCH, spec.size) for images in networks)
    work = sum(10 * cost.cycles + 40 * spec.times * spec.generator.width + 20_000 for cost in costs)
    base = int(rng.integers(1 << spec.address - 17)) << 12
    core = RecordedCore(spec, GoldenZostream(spec, networks), patience=round(4 * steps * work), base=base)
    host = StreamTrainer(core, spec)
    inputs, settings = encoder.sentences, encoder.job.settings
    first, second = encoder.orders[:steps], encoder.orders[steps:]
    rows = len(decoder.layout.rows), spec.generator.width
    deltas = np.random.default_rng(steps).integers(-(1 << 24), 1 << 24, rows)
    other = decoder.job.settings, decoder.job.position, deltas
    jobs = (
        TrainingJob(encoder.images, inputs, first, settings, position),
        TrainingJob(encoder.images, inputs, second, settings),
        TrainingJob(decoder.images, decoder.sentences, decoder.orders, *other),
    )
    return training_phases(core, host, jobs, steps * BATCH, (1_000, 30_000))
