"""Comparison of a zeroth-order job on the compiled core with the integer job: no difference, and an injected
difference.
"""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.golden.cores.zotrain.registers import CORE
from fabtune.golden.errors import UserError
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.sim.compiled.comparison import compare, compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.zeroth_order_job import TrainingJob

from ....integer_jobs import integers_of, run_integers
from ....small_cores import zotrain
from ..checks import check_difference_is_found, check_same_job, samples_of

# the core of tests/boards/host: shared build
SPEC = zotrain()


@pytest.fixture
def job():
    rng = np.random.default_rng(3)
    inputs, labels = samples_of(SPEC, rng)
    batches = (np.arange(4), np.arange(4, 6), np.array([5, 5, 0]), np.array([2]))
    steps = [StepOrder(one, labels[one], 60_000 - len(one)) for one in batches]
    settings = StepSettings(shift=24, eps_shift=9)
    return TrainingJob(random_parameters(SPEC.described, rng), inputs, steps, settings, position=77)


def shifted(job, shift):
    """The job with another shift."""
    return replace(job, settings=replace(job.settings, shift=shift))


def test_a_job_is_the_same_in_the_core(job):
    played, comparison = check_same_job(SPEC, job)
    assert comparison.facts["cycles_per_step"] == round(comparison.cycles / 4)
    assert len({step.coefficient for step in played.ran.slopes}) == 4


def test_a_job_that_clips_goes_on_from_deltas_with_stalls_on_every_channel(job):
    golden = integers_of(job, SPEC)
    list(run_integers(job, SPEC, golden))
    further = replace(shifted(job, 14), position=golden.position, deltas=golden.rows)
    clipping = integers_of(further, SPEC)
    list(run_integers(further, SPEC, clipping))
    assert clipping.saturations > 0
    assert clipping.coefficients_clipped > 0
    played, comparison = compare(SPEC, further, job.inputs[:3], Dram.stressed(), seed=2)
    assert comparison.mismatches == 0
    assert played.ran.slopes[0].position == golden.position


def test_another_shift_in_the_core_is_found(job, monkeypatch):
    train = ZerothOrderTrainer.train

    def shifted_in_rtl(host, inputs, steps, settings, position):
        less = isinstance(host.core._memory, SimulatedDevice)
        return train(host, inputs, steps, replace(settings, shift=settings.shift - less), position)

    monkeypatch.setattr(ZerothOrderTrainer, "train", shifted_in_rtl)
    check_difference_is_found(SPEC, shifted(job, 26), 4)


def test_interrupts_without_an_end_count_as_one_command_that_takes_too_long():
    device = SimulatedDevice(compiled_core(SPEC), limit=300)
    device.write(CORE.map["interrupt_enable"].offset, 1)
    for _ in range(2):
        device.write(CORE.map["command"].offset, 0)  # refused at once, and nobody clears its interrupt
        device.interrupt()
    with pytest.raises(UserError, match="not done after interrupts"):
        deque((device.interrupt() for _ in range(300)), maxlen=0)
