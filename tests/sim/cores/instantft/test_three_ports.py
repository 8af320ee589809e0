"""Three memory ports: equal bits, batches spread evenly, errors on each port, soft resets at any moment.

The array has 16 columns, so that scales are next to codes.
"""

from functools import cache
from typing import Any

import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import DeviceResetError, SimulatedDevice
from fabtune.sim.compiled.playing import ShortJob
from fabtune.sim.compiled.session import Dram
from fabtune.sim.trials.hostile import LIMIT, CalmRun, calm_run, not_reset, run_trial, wrong_error
from fabtune.sim.trials.jobs import short_jobs
from tests.small_cores import instantft

SPEC = instantft(ports=3, columns=16)
KINDS = ("base", "raw")
RESETS = 211
pytestmark = pytest.mark.slow


@cache
def job(kind: str) -> tuple[ShortJob, CalmRun]:
    """A job, and its figures on a memory without faults."""
    made = short_jobs(SPEC)[kind]
    return made, calm_run(compiled_core(SPEC), made)


def run(kind: str, device: SimulatedDevice) -> list[str]:
    """Load the network and run the whole job; differences from golden."""
    made = job(kind)[0]
    driver = made.driver(device)
    made.load(driver)
    return made.differences(driver, device)


def device(**settings: Any) -> SimulatedDevice:
    return SimulatedDevice(compiled_core(SPEC), limit=LIMIT, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_come_through_all_ports(kind: str) -> None:
    calm = job(kind)[1]
    assert min(calm.reads) > 0.1 * sum(calm.reads)
    # all other reads, and all writes, use the first port
    assert abs(calm.reads[1] - calm.reads[2]) < 0.1 * calm.reads[1]
    assert calm.reads[0] > calm.reads[1]
    assert [count > 0 for count in calm.writes] == [True, False, False]


@pytest.mark.parametrize("memory", [Dram.stressed(), Dram(greedy=True), Dram(duty=1.0, latency=4, jitter=0)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_the_integer_job(kind: str, memory: Dram) -> None:
    assert run(kind, device(dram=memory)) == []


@pytest.mark.parametrize("port", range(3))
@pytest.mark.parametrize("response", ["slverr", "decerr"])
def test_an_error_on_each_port_ends_in_its_code_and_address(port: int, response: str) -> None:
    beats = job("base")[1].reads[port]
    for beat in (1, beats // 3, beats):
        bench = device()
        bench.fault_in("read", port, beat, response)
        with pytest.raises(CoreError) as error:
            run("base", bench)
        assert not wrong_error(error.value, bench.bad_responses)
        assert (error.value.name, bench.bad_responses[0]["port"]) == (f"read_{response}", port)
        bench.no_faults()
        assert run("base", bench) == []


def test_a_soft_reset_at_any_moment_waits_for_all_ports() -> None:
    calm = job("base")[1]
    lost = 0
    for command in range(calm.commands):
        for after in range(1, calm.cycles // calm.commands, RESETS):
            bench = device()
            bench.reset_in(command, after, soft=(0,))
            try:
                assert run("base", bench) == []
            except DeviceResetError:
                lost += 1
                assert not_reset(bench) == []
            bench.no_reset()
            assert run("base", bench) == []
    assert lost > 10


@pytest.mark.parametrize("kind", KINDS)
def test_it_survives_what_a_bus_may_do(kind: str) -> None:
    trials = [run_trial(compiled_core(SPEC), *job(kind), seed) for seed in range(40)]
    assert [trial for trial in trials if trial.findings] == []
