"""Random jobs of `zotrain` for measurements: toggles, and cycles of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ....golden.rng.pezo import PezoSpec
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.comparison import compare
from ...compiled.playing import HostJob
from ..zeroth_order_job import TrainingJob

BATCH = 16
"""Default number of samples of a step."""
RATE, SHIFT = 40_000, 24
"""Learning rate of the job's steps, as in `StepOrder`, and the shift of the settings."""


class TrainingActivity(CoreActivity[ZotrainSpec]):
    """Training steps on one batch."""

    steps: ClassVar[str] = "steps"

    def batches(self, spec: ZotrainSpec) -> tuple[int, int]:
        """Default and largest number of samples of a step."""
        return BATCH, LARGEST_BATCH

    def baseline(self, spec: ZotrainSpec, job: ActivityJob) -> tuple[str, ZotrainSpec, ActivityJob] | None:
        """The comparison is the core with Gaussian generators, if they are possible."""
        if spec.fold or spec.gaussian != "none":
            return None
        return "Gaussian generators", replace(spec, generator=PezoSpec(), gaussian="tree"), job

    def jobs(self, spec: ZotrainSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Make training steps."""
        return [_random_job(spec, job.seed, batch, job.steps)]


ACTIVITY = TrainingActivity()


@dataclass(frozen=True)
class StepCycles:
    """Cycles of a step, and the number of mismatches between core and golden in all steps."""

    cycles: int
    mismatches: int


def step_cycles(
    spec: ZotrainSpec, batch: int = 20, steps: int = 2, stage: Callable[[str], None] = lambda _: None
) -> StepCycles:
    """Measure the cycles of a step on random parameters and samples; values do not matter.

    Two jobs run, the second with `steps` more steps; the difference of their cycles is divided by `steps`. This leaves
    out cycles before the first step, such as the load of the generator's state.
    """
    job = _random_job(spec, 0, batch, 1 + steps)
    jobs = [replace(job, steps=job.steps[:count]) for count in (1, 1 + steps)]
    comparisons = [compare(spec, job, job.inputs[:1], stage=stage)[1] for job in jobs]
    more = comparisons[1].cycles - comparisons[0].cycles
    return StepCycles(round(more / steps), sum(one.mismatches for one in comparisons))


def _random_job(spec: ZotrainSpec, seed: int, batch: int, steps: int) -> TrainingJob:
    """Draw network, samples and the order within each step; all steps have the same samples."""
    rng, network = np.random.default_rng(seed), spec.described
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, batch, rng, spec.labels)
    drawn = [rng.permutation(batch) for _ in range(steps)]
    orders = [StepOrder(indices, labels[indices], RATE) for indices in drawn]
    return TrainingJob(frozen, inputs, orders, StepSettings(shift=SHIFT, loss=spec.loss))
