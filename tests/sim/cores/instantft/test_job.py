"""Comparison of a job on the compiled core with the integer job: no difference, and an injected difference."""

import numpy as np
import pytest

from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.cores.adapters_job import TuningJob

from ....small_cores import instantft
from ..checks import check_difference_is_found, check_same_job, samples_of

# the core of tests/boards/cores/instantft/test_job.py: shared build
SPEC = instantft()


@pytest.fixture
def job():
    return job_of(SPEC)


def job_of(spec):
    rng = np.random.default_rng(3)
    shape = spec.mapping.shape
    adapters = Adapters(shape, np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64))
    inputs, labels = samples_of(spec, rng)
    epochs = [[np.arange(4), np.arange(4, 6)]] * 2
    return TuningJob(random_parameters(spec.described, rng), adapters, inputs, labels, epochs, rate=20_000)


def test_a_job_is_the_same_in_the_core(job):
    before = job.adapters.flat.copy()
    adapters = check_same_job(SPEC, job)[0].tuned
    assert np.array_equal(job.adapters.flat, before)
    assert not np.array_equal(adapters.flat, before)


def test_another_rate_in_the_core_is_found(job, monkeypatch):
    tune = FineTuner.tune

    def slower_in_rtl(host, inputs, labels, epochs, rate, *others):
        share = 2 if isinstance(host.core._memory, SimulatedDevice) else 1
        return tune(host, inputs, labels, epochs, rate // share, *others)

    monkeypatch.setattr(FineTuner, "tune", slower_in_rtl)
    check_difference_is_found(SPEC, job, 4)


@pytest.mark.slow
def test_a_job_on_maps_of_one_dimension():
    network = "6x1x32 conv8k1x5p0,0,2,2s1x2 relu pool1x2 dw1x3p0,0,1,1 relu conv8k1 relu avg1x8 flatten fc4"
    spec = instantft(network=network)
    check_same_job(spec, job_of(spec))
