"""Job of `zotrain` whose toggles are counted: steps of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ....golden.rng.pezo import PezoSpec
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.playing import HostJob
from ..zeroth_order_job import TrainingJob

BATCH = 16
"""Samples of a step, by default."""
RATE, SHIFT = 40_000, 24
"""Learning rate of the job: that of a `StepOrder`, with its shift."""


class TrainingActivity(CoreActivity[ZotrainSpec]):
    """Steps of training on one batch."""

    steps: ClassVar[str] = "steps"

    def batches(self, spec: ZotrainSpec) -> tuple[int, int]:
        """Samples of a step, by default and at most."""
        return BATCH, LARGEST_BATCH

    def baseline(self, spec: ZotrainSpec, job: ActivityJob) -> tuple[str, ZotrainSpec, ActivityJob] | None:
        """Compare with Gaussian generators, where the core can have them."""
        if spec.fold or spec.gaussian != "none":
            return None
        return "Gaussian generators", replace(spec, generator=PezoSpec(), gaussian="tree"), job

    def jobs(self, spec: ZotrainSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Make steps of training."""
        rng, network = np.random.default_rng(job.seed), spec.described
        frozen = random_parameters(network, rng)
        inputs, _, labels = random_samples(network, spec.byte_inputs, batch, rng, spec.labels)
        drawn = [rng.permutation(batch) for _ in range(job.steps)]
        steps = [StepOrder(one, labels[one], RATE) for one in drawn]
        return [TrainingJob(frozen, inputs, steps, StepSettings(shift=SHIFT, loss=spec.loss))]


ACTIVITY = TrainingActivity()
"""Activity of `zotrain`, as its `Spec.part` finds it."""
