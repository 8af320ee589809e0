"""A script of driver calls on the golden core and on the compiled core: equal recordings."""

import pytest

from fabtune.boards.cores.zostream.job import StreamTrainer
from fabtune.boards.host.driver import CoreError
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.host.recording import RecordingCore, first_difference
from fabtune.golden.cores.zostream.golden_core import GoldenZostream
from fabtune.golden.cores.zostream.registers import Command
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.trials.jobs import short_jobs
from tests.small_cores import zostream

from ....integer_jobs import integers_of

pytestmark = pytest.mark.slow
SPEC = zostream()
WRONG = {
    "no batch": {"batch": 0},
    "an index": {"sample_count": 1},
    "records": {"records": 1 << 39},
    "no samples": {"samples": 1 << 38},
    "perturbations": {"p2": 3},
}


def play(device, job):
    """Run a job, and commands that end in an error, each followed by loading the network again."""
    core = RecordingCore(SPEC.registers, device, device, device.interrupt, SPEC.signature)
    host = StreamTrainer(core, SPEC)
    for wrong in ({}, *WRONG.values()):
        job.load(host)
        host.load_deltas(integers_of(job, SPEC).rows)
        host.train(job.inputs, job.steps, job.settings, job.position)
        host.deltas()
        host.logits(job.inputs)
        is_right = ("p2" in wrong and job.network.cut) or ("sample_count" in wrong and len(job.inputs) == 1)
        # a core writes activations at the cut until it detects that a record has failed
        runs_ahead = "records" in wrong and job.network.cut
        if wrong and not is_right and not runs_ahead:
            with pytest.raises(CoreError):
                core.run(Command.TRAIN, **wrong)
            if "batch" not in wrong:
                with pytest.raises(CoreError):
                    core.run(Command.SAVE_DELTAS)
    return core.records


@pytest.mark.parametrize("name", short_jobs(SPEC))
def test_recordings_are_equal(name):
    job = short_jobs(SPEC, seed=5)[name].job
    golden = play(GoldenDevice(SPEC, GoldenZostream(SPEC, [job.network])), job)
    assert first_difference(golden, play(SimulatedDevice(compiled_core(SPEC)), job)) is None
