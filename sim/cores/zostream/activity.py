"""Job of `zostream` whose toggles are counted: steps of training a random encoder."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ....golden.cores.zostream.random_network import RATE, random_images, random_sentences
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.playing import HostJob
from ..zeroth_order_job import TrainingJob

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

    def jobs(self, spec: ZostreamSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Make steps of training."""
        rng, steps = np.random.default_rng(job.seed), job.steps
        images = random_images(spec, rng)
        sentences, labels = random_sentences(images, batch, min(LONGEST, spec.tokens), rng)
        rates, settings = StepSettings().with_rates([RATE] * steps, [batch] * steps, PerturbationTable(spec.generator))
        drawn = [rng.permutation(batch) for _ in range(steps)]
        orders = [StepOrder(one, labels[one], rate) for one, rate in zip(drawn, rates, strict=True)]
        return [TrainingJob(images, sentences, orders, settings)]


ACTIVITY = StreamActivity()
"""Activity of `zostream`, as its `Spec.part` finds it."""
