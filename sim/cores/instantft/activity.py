"""Job of `instantft` whose toggles are counted: batches of tuning whose samples are all in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.lora.adapters import Adapters
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.playing import HostJob
from .job import TuningJob

RATE = 20_000
"""Learning rate of the job, one of `golden.lora.adapters.rate_of`."""


class TuningActivity(CoreActivity[InstantftSpec]):
    """Batches of tuning, behind one epoch that fills the cache."""

    steps: ClassVar[str] = "batches"
    caches: ClassVar[bool] = True

    def batches(self, spec: InstantftSpec) -> tuple[int, int]:
        """Samples of a batch: what the core has room for, by default too."""
        return spec.batch, spec.batch

    def has_raw(self, spec: InstantftSpec) -> bool:
        """Whether the core can have a cache of Q8.16."""
        return spec.cache == "dram"

    def baseline(self, spec: InstantftSpec, job: ActivityJob) -> tuple[str, InstantftSpec, ActivityJob] | None:
        """Compare with a cache of Q8.16, where the core can have it."""
        return None if spec.cache != "dram" or job.raw else ("cache of Q8.16", spec, replace(job, raw=True))

    def jobs(self, spec: InstantftSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Make the epoch that fills the cache, and batches whose samples are all in it."""
        rng, network, shape = np.random.default_rng(job.seed), spec.described, spec.mapping.shape
        samples = min(spec.cache_entries, job.steps * batch)
        flat = np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
        frozen = random_parameters(network, rng)
        inputs, _, labels = random_samples(network, spec.byte_inputs, samples, rng, spec.labels)
        recording = [np.arange(at, min(at + batch, samples)) for at in range(0, samples, batch)]
        cached = list(np.resize(rng.permutation(samples), (job.steps, batch)))
        raw = job.raw or spec.raw_modes[0]
        first = TuningJob(frozen, Adapters(shape, flat), inputs, labels, [recording], RATE, raw)
        return [first, replace(first, epochs=[cached])]


ACTIVITY = TuningActivity()
"""Activity of `instantft`, as its `Spec.part` finds it."""
