"""Random jobs of `zotrain` that are measured: toggles and cycles of a step."""

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


@dataclass(frozen=True)
class StepCycles:
    """Result of `step_cycles`.

    Parameters
    ----------
    cycles : int
        Cycles of a step.
    mismatches : int
        Comparisons in which core and integer job differ, in all steps that were run.
    """

    cycles: int
    mismatches: int


def step_cycles(
    spec: ZotrainSpec, batch: int = 20, steps: int = 2, stage: Callable[[str], None] = lambda _: None
) -> StepCycles:
    """Measure the cycles of a step on random parameters and samples, on which they do not depend.

    They are the difference of two jobs, of one step and of more: what a command costs before its first step, such as
    the load of the generator's state, is left out.

    Parameters
    ----------
    spec : ZotrainSpec
    batch : int
        Samples of a step.
    steps : int
        Steps over which the cycles are averaged.
    stage : callable
        Called with the name of each part of the work as it begins.
    """
    rng, network = np.random.default_rng(0), spec.described
    shape = (batch, *network.input_shape)
    inputs = rng.integers(0, 256, shape) if spec.byte_inputs else rng.integers(-90_000, 90_000, shape)
    frozen, labels = random_parameters(network, rng), rng.integers(0, spec.labels, batch)
    order = StepOrder(np.arange(batch), labels, rate=40_000)
    settings = StepSettings(shift=24, loss=spec.loss)
    jobs = [TrainingJob(frozen, inputs, [order] * count, settings) for count in (1, 1 + steps)]
    found = [compare(spec, job, inputs[:1], stage=stage)[1] for job in jobs]
    more = found[1].cycles - found[0].cycles
    return StepCycles(round(more / steps), sum(one.mismatches for one in found))
