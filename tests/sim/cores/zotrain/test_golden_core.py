"""A script of driver calls on the golden core and on the compiled core: equal recordings."""

import numpy as np
import pytest

from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.boards.host.driver import CoreError
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.host.recording import RecordingCore, first_difference
from fabtune.golden.cores.zeroth_order.registers import Command
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.trials.jobs import short_jobs

from .... import small_cores
from ....integer_jobs import integers_of

SPEC = small_cores.zotrain(monitor=True)


def play(device, jobs):
    """Run jobs, each with its network and deltas, with failing commands in between."""
    core = RecordingCore(SPEC.registers, device, device, device.interrupt, SPEC.signature)
    host = ZerothOrderTrainer(core, SPEC)
    for job in jobs:
        job.load(host)
        host.load_deltas(integers_of(job, SPEC).rows)
        host.train(job.inputs, job.steps, job.settings, job.position)
        host.deltas()
        host.logits(job.inputs)
        for wrong in ({"batch": 0}, {"sample_count": 1}, {"records": 1 << 39}, {"steps": 0}, {"eps_shift": 3}):
            with pytest.raises(CoreError):
                core.run(Command.TRAIN, **wrong)
    return core.records


FAST = ("clipped", "cut 1")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in short_jobs(SPEC)]
)
def test_recordings_are_equal(name):
    jobs = [short_jobs(SPEC, seed=5)[name].job]
    golden, simulated = play(GoldenDevice(SPEC), jobs), play(SimulatedDevice(compiled_core(SPEC)), jobs)
    assert first_difference(golden, simulated) is None
    assert any(np.any(image) for image in golden[-1].memory.values())
