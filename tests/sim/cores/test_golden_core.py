"""One script of driver calls on the golden cores and on the compiled ones: recordings are equal, errors included."""

import numpy as np
import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.boards.host.golden_device import GoldenDevice
from fabtune.boards.host.recording import first_difference
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.playing import host_on
from fabtune.sim.cores.adapters_job import TuningJob
from fabtune.sim.trials.contract import trials_of
from fabtune.sim.trials.jobs import short_jobs

from ... import small_cores

TRAINING = {"batch": 0}, {"sample_count": 1}, {"records": 1 << 39}
WRONG = {
    "instantft": ({"batch": 0}, {"cache_entries": 1}, {"logits": 1 << 39}, {"epochs": 0}, {"mode": 1 << 9}),
    "zotrain": (*TRAINING, {"steps": 0}, {"eps_shift": 3}),
    "zostream": (*TRAINING, {"samples": 1 << 38}, {"p2": 3}),
}
CORES = {
    "instantft": small_cores.instantft(),
    "instantft, options": small_cores.instantft(**small_cores.OPTIONS),
    "instantft, chip": small_cores.instantft(cache="chip"),
    "instantft, two ports": small_cores.instantft(ports=2, columns=8),
    "instantft, biases": small_cores.instantft(tunes="biases"),
    "instantft, autoencoder": small_cores.instantft(network="16 fc8 relu fc16", loss="mse", byte_inputs=False),
    "zotrain": small_cores.zotrain(monitor=True),
    "zostream": small_cores.zostream(),
}
WHOLE = ("instantft", "instantft, options", "zotrain", "zostream")
"""Cores that play all their short jobs."""
FAST = ("instantft", "base"), ("zotrain", "clipped"), ("zotrain", "cut 1")
JOBS = [(core, job) for core, spec in CORES.items() for job in (short_jobs(spec) if core in WHOLE else ["base"])]


def ends_right(job, wrong):
    """Whether settings are right for a job, or a core with a cut network runs ahead of golden.

    It writes activations at the cut of further perturbations until it knows that a record has failed.
    """
    cut = getattr(getattr(job, "network", None), "cut", 0)
    return ("sample_count" in wrong and len(job.inputs) == 1) or (cut and ("p2" in wrong or "records" in wrong))


def play(spec, device, job):
    """Run a job, an inference, the job, wrong commands, and the job again; load anew where the network is lost."""
    host, trials = host_on(device, job, spec), trials_of(spec)
    core, commands, load = host.core, spec.registers.commands, True
    for wrong in ({}, *WRONG[spec.name]):
        if load:
            job.load(host)
            if isinstance(job, TuningJob):
                host.forget()
            job.start(host)
            job.run(host)
            job.tuned(host)
            host.logits(job.inputs)
        if not wrong:
            job.run(host)
            job.tuned(host)
        elif not ends_right(job, wrong):
            with pytest.raises(CoreError):
                core.run(trials.command, **wrong)
            if not trials.keeps and "batch" not in wrong:
                with pytest.raises(CoreError):
                    core.run(commands["SAVE_DELTAS"])
        load = not trials.keeps
    if trials.keeps:  # errors have emptied a cache
        job.start(host)
        job.run(host)
        job.tuned(host)
    return core.records


@pytest.mark.parametrize(
    ("core", "name"), [pair if pair in FAST else pytest.param(*pair, marks=pytest.mark.slow) for pair in JOBS]
)
def test_recordings_are_equal(core, name):
    spec = CORES[core]
    job = short_jobs(spec, seed=5)[name].job
    golden = play(spec, GoldenDevice(spec, job.golden(spec)), job)
    assert first_difference(golden, play(spec, SimulatedDevice(compiled_core(spec)), job)) is None
    assert any(np.any(image) for image in golden[-1].memory.values())
