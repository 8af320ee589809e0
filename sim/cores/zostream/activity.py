"""Job of `zostream` whose toggles are counted: steps of training a random encoder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from ....golden.cores.zostream.random_network import RATE, random_images, random_sentences
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.device import SimulatedDevice
from .job import StreamJob

BATCH, LONGEST = 4, 7
"""Sentences of a step, by default, and tokens of the longest one."""


class StreamActivity(CoreActivity[ZostreamSpec]):
    """Steps of training on one batch of sentences."""

    steps: ClassVar[str] = "steps"

    def batches(self, spec: ZostreamSpec) -> tuple[int, int]:
        """Sentences of a step, by default and at most."""
        return BATCH, LARGEST_BATCH

    def baseline(self, spec: ZostreamSpec, job: ActivityJob) -> None:
        """Compare with nothing: the core has no other generators."""

    def run(
        self, spec: ZostreamSpec, job: ActivityJob, batch: int, device: SimulatedDevice, file: Path, period_ps: int
    ) -> tuple[int, bool]:
        """Write the activity of steps of training; return their cycles, and whether the deltas are golden's."""
        rng, steps = np.random.default_rng(job.seed), job.steps
        images = random_images(spec, rng)
        sentences, labels = random_sentences(images, batch, min(LONGEST, spec.tokens), rng)
        rates, settings = StepSettings().with_rates([RATE] * steps, [batch] * steps, PerturbationTable(spec.generator))
        drawn = [rng.permutation(batch) for _ in range(steps)]
        orders = [StepOrder(one, labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
        training = StreamJob(images, sentences, orders, settings)
        return training.write_activity(spec, device, file, period_ps)


ACTIVITY = StreamActivity()
"""Activity of `zostream`, as its `Spec.part` finds it."""
