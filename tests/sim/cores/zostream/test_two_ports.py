"""A core with two memory ports: equal bits, both ports read the stream, and errors and resets reach both."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.golden.axi.bus import BEAT
from fabtune.golden.cores.zostream.random_network import NetworkKind, RandomJob, random_images
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.sim.compiled.comparison import compare, compiled_core
from fabtune.sim.compiled.device import DeviceResetError, SimulatedDevice
from fabtune.sim.compiled.playing import ShortJob
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.zeroth_order_job import TrainingJob
from fabtune.sim.cores.zostream.trials import StreamVariation, short_stream
from fabtune.sim.trials.hostile import LIMIT, not_reset, wrong_error
from tests.small_cores import zostream

SPEC = zostream(ports=2)
BURST = BEAT * SPEC.reader.burst
RESETS = 400
MEMORIES = {"usual": None, "stressed": Dram.stressed(), "one starves": Dram(greedy=True)}


@cache
def short() -> ShortJob:
    """A step and an inference."""
    return short_stream(SPEC, 7, StreamVariation(lengths=(1, 3), sizes=(2,)))


def run(device: SimulatedDevice) -> list[str]:
    """Load the network and run the whole job; differences from golden."""
    driver = short().driver(device)
    short().load(driver)
    return short().differences(driver, device)


def images(spec: ZostreamSpec) -> StreamImages:
    """Program and stream of one network."""
    return random_images(spec, np.random.default_rng(1), "encoder")


def test_the_second_port_changes_no_image() -> None:
    one = zostream()
    assert np.array_equal(images(SPEC).weights, images(one).weights)
    assert np.array_equal(images(SPEC).program.image(), images(one).program.image())
    assert (SPEC.memory_ports, one.memory_ports) == (2, 1)
    assert {SPEC.address_buses[name] for name in ("weights", "order")} == {"m_axi_gmem0", "m_axi_gmem1"}


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", ["perceptron", "encoder", "decoder"])
def test_a_job_is_the_integer_job(kind: NetworkKind, memory: str) -> None:
    rng = np.random.default_rng(1)
    own = RandomJob(SPEC, random_images(SPEC, rng, kind), rng, 6, 4, 4, 7, position=33)
    job = TrainingJob(own.images, own.sentences, own.orders, own.job.settings, 33)
    _, comparison = compare(SPEC, job, own.sentences[:2], MEMORIES[memory], seed=3)
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 2)


def device(**settings: Any) -> SimulatedDevice:
    return SimulatedDevice(compiled_core(SPEC), limit=LIMIT, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("response", ["slverr", "decerr"])
def test_an_error_on_either_port_ends_in_its_code_and_address(port: int, response: str) -> None:
    calm = device()
    assert run(calm) == []
    # the first port reads everything except the weights
    reads = [one["read_beats"] for one in calm.results[-1]["ports"]]
    assert reads[1] > 0
    weights = next(at for at, one in enumerate(calm.buffers) if one.array.size == short().job.network.weights.size - 48)
    first = calm.buffers[weights].device_address
    end = BEAT * short().job.network.program.stream_beats  # behind it are tables, of which a step reads some rows
    own = [at for at in range(0, end, BEAT) if (first + at) // BURST % 2 == port]
    assert len(own) > BURST // BEAT
    for offset in (own[0], own[len(own) // 2], own[-1]):
        bench = device()
        bench.fault_of_buffer(weights, "read", offset, 1, response)
        with pytest.raises(CoreError, match="in the weights of operation") as error:
            run(bench)
        assert error.value.name == f"read_{response}"
        assert not wrong_error(error.value, bench.bad_responses)
        assert bench.bad_responses[0]["port"] == port
        bench.no_faults()
        assert run(bench) == []


@pytest.mark.slow
def test_a_soft_reset_at_any_moment_waits_for_both_ports() -> None:
    calm = device()
    assert run(calm) == []
    cycles = [one["waits"][-1]["cycles"] for one in calm.results if one["waits"]][2]  # of the step
    for after in range(1, cycles, RESETS):
        bench = device()
        bench.reset_in(2, after, soft=(0,))
        with pytest.raises(DeviceResetError):
            run(bench)
        assert not_reset(bench) == []
        assert run(bench) == []
