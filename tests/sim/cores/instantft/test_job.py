"""The comparison of a job on the compiled core with the integer job: it finds no difference, and finds one."""

import numpy as np
import pytest

from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.sim.cores.instantft.job import TuningJob, compare_job

from ....small_cores import instantft
from ..checks import check_difference_is_found, check_same_job, samples_of

# the core of tests/boards/cores/instantft/test_job.py: one build serves both
SPEC = instantft()


@pytest.fixture
def job():
    rng = np.random.default_rng(3)
    shape = SPEC.mapping.shape
    adapters = Adapters(shape, np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64))
    inputs, labels = samples_of(SPEC, rng)
    epochs = [[np.arange(4), np.arange(4, 6)]] * 2
    return TuningJob(random_parameters(SPEC.described, rng), adapters, inputs, labels, epochs, rate=20_000)


def test_a_job_is_the_same_in_the_core(job):
    before = job.adapters.flat.copy()
    adapters, _ = check_same_job(compare_job, SPEC, job)
    assert np.array_equal(job.adapters.flat, before)
    assert not np.array_equal(adapters.flat, before)


def test_another_rate_in_the_core_is_found(job, monkeypatch):
    tune = FineTuner.tune
    monkeypatch.setattr(
        FineTuner,
        "tune",
        lambda self, inputs, labels, epochs, rate, *others: tune(self, inputs, labels, epochs, rate // 2, *others),
    )
    # all batches, of which each epoch has two, and the final adapters
    check_difference_is_found(compare_job, SPEC, job, len(job.epochs))
