"""Random jobs of `instantft` for measurements: toggles of tuning from the cache, and the work of each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ....boards.host.golden_device import GoldenDevice
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.lora.adapters import Adapters
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.device import SimulatedDevice
from ...compiled.playing import HostJob, host_on
from ...compiled.roofline import CoreRoofline, Roofline, RooflineJob, Work
from ..adapters_job import TuningJob

RATE = 20_000
"""Learning rate of a sample, as from `golden.lora.adapters.rate_of`."""


class TuningActivity(CoreActivity[InstantftSpec]):
    """Batches that are tuned after an epoch has filled the cache."""

    steps: ClassVar[str] = "batches"
    caches: ClassVar[bool] = True

    def batches(self, spec: InstantftSpec) -> tuple[int, int]:
        """Samples of a batch: the core's largest batch."""
        return spec.batch, spec.batch

    def has_raw(self, spec: InstantftSpec) -> bool:
        """Whether the core can have a cache of Q8.16."""
        return spec.cache == "dram"

    def baseline(self, spec: InstantftSpec, job: ActivityJob) -> tuple[str, InstantftSpec, ActivityJob] | None:
        """The comparison is a cache of Q8.16, if supported."""
        return None if spec.cache != "dram" or job.raw else ("cache of Q8.16", spec, replace(job, raw=True))

    def jobs(self, spec: InstantftSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Make the epoch that fills the cache, and batches of cached samples."""
        rng, samples = np.random.default_rng(job.seed), min(spec.cache_entries, job.steps * batch)
        recording = np.split(np.arange(samples), range(batch, samples, batch))
        first = _random_job(spec, samples, [recording], job.raw, rng)
        return [first, replace(first, epochs=[list(np.resize(rng.permutation(samples), (job.steps, batch)))])]


ACTIVITY = TuningActivity()


MORE = 3
"""Number of epochs of the last job; the job before has one epoch. Both use cached samples only."""


class TuningRoofline(CoreRoofline[InstantftSpec]):
    """Three commands: one epoch of new samples; one epoch of cached samples; several epochs of cached samples."""

    titles: ClassVar[Mapping[str, str]] = {
        "words": "words of the frozen network",
        "pauses": "pauses between them",
        "forward": "rows of the adapters, forward",
        "head": "waits for the head",
        "backward": "rows of the adapters, backward",
        "update": "update behind them",
        "gradients": "gradients leave",
        "record": "the record is packed",
        "sample": "the next new sample comes in",
        "load": "beats into the unpacker",
        "unpack": "words into the batch memory",
    }

    def check(self, spec: InstantftSpec, job: RooflineJob) -> None:
        """Refuse more samples than cache entries, and unsupported records."""
        if not 1 <= job.samples <= spec.cache_entries:
            raise UserError(f"{job.samples} samples: this core takes 1 to {spec.cache_entries}")
        if job.raw and job.raw not in spec.raw_modes:
            raise UserError(f"the cache of this core is {spec.cache}, which has no records in Q8.16")

    def run(self, spec: InstantftSpec, job: RooflineJob, device: SimulatedDevice) -> Roofline:
        """Run the three commands, compare all adapters after every batch, and subtract the commands' work.

        Cycles before a command's first batch are part of the first epoch's samples.
        """
        batches = np.split(np.arange(job.samples), range(spec.batch, job.samples, spec.batch))
        first = _random_job(spec, job.samples, [batches], job.raw, np.random.default_rng(job.seed))
        jobs = [first, first, replace(first, epochs=[batches] * MORE)]
        golden = GoldenDevice(spec, first.golden(spec))
        for own in (device, golden):
            host = host_on(own, first, spec)
            first.load(host)
            own.trace_image(first.start(host))
            for tuning in jobs:
                tuning.run(host)
        new, one, more = (Work.of(spec, [wait]) for wait in device.waits[-len(jobs) :])
        traced = device.traced_images
        wrong = sum(not np.array_equal(*pair) for pair in zip(golden.traced_images, traced, strict=True))
        known = more.less(one, (MORE - 1) * job.samples)
        work = {"sample": known} if spec.cache == "none" else {"new": new.of_each(job.samples), "in the cache": known}
        return Roofline(work, len(traced), wrong)


def _random_job(
    spec: InstantftSpec, samples: int, epochs: Sequence[Sequence[Integers]], raw: bool, rng: np.random.Generator
) -> TuningJob:
    """Draw adapters, network and samples."""
    network, shape = spec.described, spec.mapping.shape
    flat = np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
    frozen = random_parameters(network, rng)
    inputs, _, labels = random_samples(network, spec.byte_inputs, samples, rng, spec.labels)
    return TuningJob(frozen, Adapters(shape, flat), inputs, labels, epochs, RATE, raw or spec.raw_modes[0])


ROOFLINE = TuningRoofline()
