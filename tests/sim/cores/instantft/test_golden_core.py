"""A script of driver calls on the golden core and on the compiled core: equal recordings."""

import pytest

from fabtune.boards.cores.instantft.job import FineTuner
from fabtune.boards.host.driver import CoreError
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.host.recording import RecordingCore, first_difference
from fabtune.golden.cores.adapters.registers import Command
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.trials.jobs import short_jobs

from .... import small_cores

SPEC = small_cores.instantft(**small_cores.OPTIONS)
CACHED = small_cores.instantft()


def play(spec, device, job):
    """Run a job, an inference, the job again from the cache, and commands that end in an error."""
    core = RecordingCore(spec.registers, device, device, device.interrupt, spec.signature)
    host = FineTuner(core, spec, len(job.inputs), job.raw)
    host.load(job.frozen)
    host.forget()
    host.load_adapters(job.adapters)
    tuning = job.inputs, job.labels, job.epochs, job.rate, True, job.stop_loss, job.validation, job.patience
    host.tune(*tuning)
    host.adapters()
    host.logits(job.inputs)
    host.tune(*tuning)
    host.adapters()
    for wrong in ({"batch": 0}, {"cache_entries": 1}, {"logits": 1 << 39}, {"epochs": 0}, {"mode": 1 << 9}):
        with pytest.raises(CoreError):
            core.run(Command.TUNE, **wrong)
    return core.records


def check(spec, name):
    job = short_jobs(spec, seed=5)[name].job
    golden = play(spec, GoldenDevice(spec), job)
    assert first_difference(golden, play(spec, SimulatedDevice(compiled_core(spec)), job)) is None


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in short_jobs(SPEC)])
def test_recordings_with_all_options_are_equal(name):
    check(SPEC, name)


FAST = ("base",)


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in short_jobs(CACHED)]
)
def test_recordings_are_equal(name):
    check(CACHED, name)


OTHERS = {
    "chip": {"cache": "chip"},
    "two ports": {"ports": 2, "columns": 8},
    "biases": {"tunes": "biases"},
    "autoencoder": {"network": "16 fc8 relu fc16", "loss": "mse", "byte_inputs": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_recordings_of_other_cores_are_equal(name):
    check(small_cores.instantft(**OTHERS[name]), "base")
