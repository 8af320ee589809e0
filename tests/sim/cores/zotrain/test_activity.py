"""Toggles in steps of training, counted if the job ends with golden's numbers; and the baseline."""

from dataclasses import replace

import pytest

from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.settings import build as spec_from
from fabtune.sim.compiled.activity import ActivityJob, activity
from fabtune.sim.cores.zeroth_order_job import TrainingJob
from fabtune.sim.cores.zotrain.measured_jobs import ACTIVITY
from fabtune.sim.simulator import find

PERIOD = 4000
# the core of tests/sim/compiled/test_activity.py
TRAINING = ZotrainSpec(network="1x4x4 flatten fc8 relu fc4", lanes=16, columns=2)
JOB = ActivityJob(steps=2, batch=3)

pytestmark = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


@pytest.mark.slow
def test_a_training_job_is_golden_s_and_its_bits_are_counted():
    own = activity(TRAINING, JOB, PERIOD)
    assert own.bit_exact
    assert own.registers["generator"].count > 1000
    # a job writes its records
    assert own.ports["m_axi_gmem0 w"].count
    assert "aclk" not in own.ports
    assert "(aclk (T0" in own.saif


@pytest.mark.slow
def test_generators_of_pezo_toggle_less_than_gaussian_ones():
    own = activity(TRAINING, JOB, PERIOD)
    name, spec, same = ACTIVITY.baseline(TRAINING, JOB)
    other = activity(spec, same, PERIOD)
    assert name == "Gaussian generators"
    assert other.bit_exact
    assert 5 * own.registers["generator"].count < other.registers["generator"].count
    assert own.registers["generator"].bits < other.registers["generator"].bits


@pytest.mark.slow
def test_another_result_is_seen(monkeypatch):
    run = TrainingJob.run

    def shorter_on_golden(job, host):
        on_golden = isinstance(host.core._memory, GoldenDevice)
        return run(replace(job, steps=job.steps[:-1]) if on_golden else job, host)

    monkeypatch.setattr(TrainingJob, "run", shorter_on_golden)
    assert not activity(TRAINING, JOB, PERIOD).bit_exact


def test_some_cores_have_nothing_to_compare_with():
    assert ACTIVITY.baseline(spec_from(ZotrainSpec, (), "large"), ActivityJob()) is None
    assert ACTIVITY.baseline(spec_from(ZotrainSpec, ("gaussian=tree",), "tiny"), ActivityJob()) is None
