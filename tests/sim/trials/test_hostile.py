"""All cores on fault-injecting buses: every seed ends right or with the right error, then a whole job is right."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.golden.cores.adapters.registers import Command, Error
from fabtune.golden.cores.core import CoreSpec
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.zotrain.trials import short_training
from fabtune.sim.trials.contract import trials_of
from fabtune.sim.trials.endings import ending_findings
from fabtune.sim.trials.hostile import (
    CalmRun,
    Trial,
    calm_difference,
    calm_run,
    hostile_dram,
    run_trial,
    wrong_error,
)
from fabtune.sim.trials.jobs import short_jobs
from fabtune.sim.trials.refusals import refusal_findings
from fabtune.sim.trials.register_words import register_findings

from ...small_cores import OPTIONS, instantft, with_slow, zostream, zotrain

AUTOENCODER = {"network": "40 fc6 relu fc40", "loss": "mse", "lanes": 16}

CORES: dict[str, Callable[[], CoreSpec]] = {
    "instantft": instantft,
    "zotrain": zotrain,
    "instantft, two ports": lambda: instantft(ports=2),
    "instantft, cache on the chip": lambda: instantft(cache="chip"),
    "instantft, early stop": lambda: instantft(early_stop=True),
    "instantft, options": lambda: instantft(**OPTIONS),
    "zotrain, narrow": lambda: zotrain(deltas="ultra"),
    # cores of tests/sim/compiled/test_autoencoders.py: shared build
    "instantft, autoencoder": lambda: InstantftSpec(**AUTOENCODER, columns=4, rank=2, batch=4, cache_entries=64),
    "zotrain, autoencoder": lambda: ZotrainSpec(**AUTOENCODER, columns=2, byte_inputs=False),
    "zostream": zostream,
    "zostream, two ports": lambda: zostream(ports=2),
}
SMALL = with_slow(["instantft", "zotrain", "zostream"])
FEW, MANY = range(12), range(12, 222)
FEWER = range(12, 80)
"""Seeds of a core with ten times longer jobs."""
CYCLES = {
    "instantft": {"base": 6208},
    "zotrain": {"base": 6439},
    "zostream": {"base": 59731},
}


@cache
def _program(name: str) -> Path:
    spec = CORES[name]()
    return compiled_core(spec)


@cache
def _jobs(name: str) -> dict[str, tuple[Path, Any, CalmRun]]:
    """Jobs of a core, and their figures on a memory without faults."""
    program = _program(name)
    return {job: (program, made, calm_run(program, made)) for job, made in short_jobs(CORES[name]()).items()}


def _trial(name: str, seed: int) -> Trial:
    jobs = list(_jobs(name).values())
    return run_trial(*jobs[seed % len(jobs)], seed)


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_core_survives(name: str, seed: int) -> None:
    assert not _trial(name, seed).findings


@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_run_is_compared_with_a_calm_one(name: str) -> None:
    """Compared are also data that no driver reads: the final memory, and the monitor's activity."""
    program, made, calm = _jobs(name)["base"]
    assert calm_difference(program, made, calm) == ""
    beats, *parts = calm.shown
    assert beats > 0
    assert sum(cycles > 0 for cycles in parts) == len(made.spec.turns + made.spec.beside)
    assert len(calm.contents) == len(calm.buffers)
    wrong = {
        "cycles": {"simulated": calm.simulated - 1},
        "the monitor shows": {"shown": (*calm.shown[:-1], calm.shown[-1] + 1)},
        "other bytes in buffer 0": {"contents": (b"", *calm.contents[1:])},
    }
    for told, change in wrong.items():
        assert told in calm_difference(program, made, replace(calm, **change))


@pytest.mark.slow
@pytest.mark.parametrize("name", CORES)
def test_a_core_survives_many(name: str) -> None:
    """1,958 seeds in all, in addition to the seeds of every run."""
    trials = [_trial(name, seed) for seed in (FEWER if name.startswith("zostream") else MANY)]
    assert [trial for trial in trials if trial.findings] == []
    ends = {trial.ended for trial in trials}
    assert {"right", "reset", "soft reset", "read_slverr", "read_decerr", "write_slverr", "write_decerr"} <= ends


@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_jobs_reach_what_is_rare(name: str) -> None:
    """Values and coefficients are clipped, the generator wraps, and a network is cut at every stage."""
    made = {job: one for job, (_, one, _) in _jobs(name).items()}
    assert made["clipped"].counts["saturations"] > 100
    assert made["base"].counts["saturations"] == 0
    if name == "zotrain":
        assert made["clipped"].counts["coefficients_clipped"] > 0
        assert {job for job in made if job.startswith("cut")} >= {"cut 1", "cut 2", "cut 3"}
        late = made["late"].job
        assert late.position > made["late"].spec.source.period - 200


@pytest.mark.parametrize("name", SMALL)
def test_a_command_waits_for_reads_that_nothing_needs(name: str) -> None:
    """R stalls in 250 of 256 cycles; the memory ends the run if a burst is outstanding after a command."""
    # the perceptron's last weights are followed by weights of tiles beyond its inputs
    program, made, _ = _jobs(name)["perceptron" if name == "zostream" else "base"]
    device = SimulatedDevice(program, Dram(stall_r=250 / 256), seed=3)
    driver = made.driver(device)
    made.load(driver)
    assert made.differences(driver, device) == []


@pytest.mark.parametrize("name", with_slow(CYCLES))
def test_cycles_of_a_job_are_those_of_before(name: str) -> None:
    """A change of the RTL that changes the cycles is intended, or is a fault."""
    for job, cycles in CYCLES[name].items():
        assert _jobs(name)[job][2].cycles == cycles


@pytest.mark.parametrize(
    "name",
    [
        *("instantft", "zotrain"),
        pytest.param("instantft, options", marks=pytest.mark.slow),
        pytest.param("instantft, cache on the chip", marks=pytest.mark.slow),
        pytest.param("instantft, early stop", marks=pytest.mark.slow),
        pytest.param("zostream", marks=pytest.mark.slow),
    ],
)
def test_a_core_refuses_what_golden_refuses(name: str) -> None:
    assert [*refusal_findings(_program(name), CORES[name](), seed=1)] == []


@pytest.mark.parametrize("name", [*SMALL, pytest.param("zotrain, autoencoder", marks=pytest.mark.slow)])
def test_wrong_entries_of_an_order_list_end_in_their_error(name: str) -> None:
    spec = CORES[name]()
    assert ending_findings(_program(name), spec, trials_of(spec).entries(spec)) == []


@pytest.mark.parametrize("name", SMALL)
def test_registers_keep_what_is_written_and_answer_at_every_address(name: str) -> None:
    assert register_findings(_program(name), CORES[name](), seed=1) == []


@pytest.mark.slow
def test_a_limit_that_differs_is_found() -> None:
    other = instantft(batch=5)
    found = refusal_findings(_program("instantft"), other, seed=1)
    assert any("'batch': 5" in finding for finding in found)


def test_trials_follow_from_their_seed() -> None:
    drawn = [hostile_dram(np.random.default_rng(seed)) for seed in range(200)]
    assert drawn[3] == hostile_dram(np.random.default_rng(3))
    assert {one.aw_order for one in drawn} == {"any", "with_w", "behind_w"}
    assert {one.latency for one in drawn} >= {1, 1000}
    assert _trial("zotrain", 5) == _trial("zotrain", 5)


@pytest.mark.parametrize(
    ("code", "address", "right"),
    [
        (Error.READ_SLVERR, 0x1000, True),
        (Error.WRITE_DECERR, 0x2000, True),  # within a cycle
        (Error.READ_SLVERR, 0x1010, False),
        (Error.READ_DECERR, 0x1000, False),
        (Error.WRITE_SLVERR, 0x3000, False),
        (Error.BAD_INDEX, 0x1000, False),
    ],
)
def test_an_error_is_compared_with_the_first_bad_response(code: Error, address: int, right: bool) -> None:
    bad = [
        {"cycle": 100, "port": 0, "kind": "read", "address": 0x1000, "response": "slverr"},
        {"cycle": 101, "port": 0, "kind": "write", "address": 0x2000, "response": "decerr"},
        {"cycle": 130, "port": 0, "kind": "write", "address": 0x3000, "response": "slverr"},
    ]
    error = CoreError(Command.LOAD, code, address, Error)
    assert (wrong_error(error, bad) == []) == right
    assert wrong_error(error, []) == [f"{error} without a bad response"]


def test_a_wrong_job_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program, job, calm = _jobs("zotrain")["base"]
    other = short_training(job.spec, seed=2)
    monkeypatch.setattr(other, "load", job.load)
    trial = run_trial(program, other, calm, 1, Dram())
    assert any(one.startswith("then ") for one in trial.findings)
