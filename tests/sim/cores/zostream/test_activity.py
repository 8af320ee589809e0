"""Toggles in steps of training a transformer, counted if the job ends with golden's numbers."""

from dataclasses import replace

import pytest

from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.sim.compiled.activity import ActivityJob, activity
from fabtune.sim.cores.zeroth_order_job import TrainingJob
from fabtune.sim.cores.zostream.measured_jobs import ACTIVITY
from fabtune.sim.simulator import find

from ....small_cores import zostream

JOB = ActivityJob(steps=2, batch=3)


@pytest.mark.slow
@pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")
def test_a_training_job_is_golden_s_and_its_bits_are_counted(monkeypatch):
    own = activity(zostream(), JOB, 4000)
    assert own.bit_exact
    assert own.registers["engine"].count > 1000
    assert own.ports["m_axi_gmem0 w"].count  # its records
    assert "(aclk (T0" in own.saif
    run = TrainingJob.run

    def shorter_on_golden(job, host):
        on_golden = isinstance(host.core._memory, GoldenDevice)
        return run(replace(job, steps=job.steps[:-1]) if on_golden else job, host)

    monkeypatch.setattr(TrainingJob, "run", shorter_on_golden)
    assert not activity(zostream(), JOB, 4000).bit_exact


def test_it_is_compared_with_nothing():
    assert ACTIVITY.baseline(zostream(), JOB) is None
    assert JOB.check(zostream()) == 3
    assert ActivityJob().check(zostream()) == 4
