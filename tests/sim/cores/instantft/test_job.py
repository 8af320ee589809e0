"""The comparison of a job on the compiled core with the integer job: it finds no difference, and finds one."""

import numpy as np
import pytest

from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.sim.cores.instantft.job import TuningJob, compare_job

from ....small_cores import instantft

# the core of tests/boards/cores/instantft/test_job.py: one build serves both
SPEC = instantft()


@pytest.fixture
def job():
    rng = np.random.default_rng(3)
    network, shape = SPEC.described, SPEC.mapping.shape
    adapters = Adapters(shape, np.rint(1500 * rng.normal(0, 1, shape.parameters)).astype(np.int64))
    inputs, labels = rng.integers(0, 256, (6, *network.input_shape)), rng.integers(0, network.classes, 6)
    epochs = [[np.arange(4), np.arange(4, 6)]] * 2
    return TuningJob(random_parameters(network, rng), adapters, inputs, labels, epochs, rate=20_000)


def test_a_job_is_the_same_in_the_core(job):
    stages = []
    before = job.adapters.flat.copy()
    adapters, comparison = compare_job(SPEC, job, job.inputs[:5], stage=stages.append)
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 5)
    assert comparison.facts["bit_exact"]
    assert 0 < comparison.cycles < comparison.simulated
    assert np.array_equal(job.adapters.flat, before)
    assert not np.array_equal(adapters.flat, before)
    assert stages == ["emit the core", "compile the simulator", "simulate the job", "compare"]


def test_another_rate_in_the_core_is_found(job, monkeypatch):
    tune = FineTuner.tune
    monkeypatch.setattr(
        FineTuner,
        "tune",
        lambda self, inputs, labels, epochs, rate, *others: tune(self, inputs, labels, epochs, rate // 2, *others),
    )
    _, comparison = compare_job(SPEC, job, job.inputs)
    # all batches and the final adapters; logits are compared with the core's own adapters
    assert comparison.mismatches == len(job.epochs) * 2 + 1
    assert not comparison.facts["bit_exact"]
