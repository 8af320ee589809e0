"""Both cores on hostile buses: every seed ends right or in the right error, and then a whole job is right."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.golden.cores.instantft import InstantftSpec
from fabtune.golden.cores.instantft_registers import Command, Error
from fabtune.golden.cores.zotrain import ZotrainSpec
from fabtune.golden.zo.split import Split
from fabtune.hw.verilog import emit
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.hostile import CalmRun, calm_run, hostile_dram, run_trial, wrong_error
from fabtune.sim.compiled.session import Dram
from fabtune.sim.compiled.short_jobs import ShortTraining, ShortTuning

NETWORK = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"


def _adapters(raw: bool = False, **settings: Any) -> ShortTuning:
    spec = InstantftSpec(network=NETWORK, lanes=16, batch=4, cache_entries=64, **settings)
    return ShortTuning(spec, seed=1, raw=raw)


def _zeroth_order(split: Split | None = None, **settings: Any) -> ShortTraining:
    spec = ZotrainSpec(network=NETWORK, lanes=16, cut_rows=72, **settings)
    return ShortTraining(spec, 1, split=split or Split())


JOBS = {
    "instantft": _adapters,
    "zotrain": _zeroth_order,
    "instantft, raw": lambda: _adapters(raw=True),
    "instantft, two ports": lambda: _adapters(ports=2),
    "instantft, cache on the chip": lambda: _adapters(cache="chip"),
    "zotrain, two parts": lambda: _zeroth_order(Split(2, 2, 2)),
    "zotrain, narrow": lambda: _zeroth_order(deltas="ultra"),
}
FEW, MANY = range(10), range(10, 160)


@cache
def _prepared(name: str) -> tuple[Path, Any, CalmRun]:
    job = JOBS[name]()
    program = build(emit(job.spec).verilog, job.spec.name, getattr(job.spec, "ports", 1))
    return program, job, calm_run(program, job)


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_core_survives(name: str, seed: int) -> None:
    trial = run_trial(*_prepared(name), seed)
    assert not trial.findings


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_core_survives_many(name: str) -> None:
    """1,050 seeds in all, beside those of every run."""
    prepared = _prepared(name)
    trials = [run_trial(*prepared, seed) for seed in MANY]
    assert [trial for trial in trials if trial.findings] == []
    ends = {trial.ended for trial in trials}
    assert {"right", "reset", "read_slverr", "read_decerr", "write_slverr", "write_decerr"} <= ends


def test_trials_follow_from_their_seed() -> None:
    drawn = [hostile_dram(np.random.default_rng(seed)) for seed in range(200)]
    assert drawn[3] == hostile_dram(np.random.default_rng(3))
    assert {one.aw_order for one in drawn} == {"any", "with_w", "behind_w"}
    assert {one.latency for one in drawn} >= {1, 1000}
    prepared = _prepared("zotrain")
    assert run_trial(*prepared, 5) == run_trial(*prepared, 5)


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
    program, job, calm = _prepared("zotrain")
    other = ShortTraining(job.spec, seed=2)
    monkeypatch.setattr(other, "load", job.load)
    trial = run_trial(program, other, calm, 1, Dram())
    assert any(one.startswith("then ") for one in trial.findings)
