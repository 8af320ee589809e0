# amaranth: UnusedElaboratable=no
"""Burst sizes declared in `component.xml`, compared with the core's maximum on its bus."""

import pytest
from amaranth.hdl import Fragment

from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import selftest_of
from fabtune.hw.cores.instantft.instantft import Instantft
from fabtune.hw.cores.zeroth_order.sequencer import ZerothOrderSequencer
from fabtune.hw.cores.zostream.stream_passes import StreamPasses
from fabtune.hw.cores.zotrain.zotrain import Zotrain
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram

from ...small_cores import OPTIONS, instantft, with_slow, zostream, zotrain

CORES = {
    "instantft": instantft(),
    "instantft, options": instantft(**OPTIONS),
    "zotrain": zotrain(),
    "zostream": zostream(),
}
SLOW = Dram(latency=2000, outstanding=64, duty=0.2)
"""A memory that accepts as many outstanding bursts as the core issues."""


@pytest.mark.parametrize("name", with_slow(CORES, ("instantft, options", "zostream")))
def test_a_core_bursts_as_its_description_says(name):
    spec = CORES[name]
    device = SimulatedDevice(compiled_core(spec), SLOW, limit=30_000_000)
    selftest_of(spec).run(Core.on(spec, device))
    for port, said in zip(device.results[-1]["ports"], spec.bus_parameters.values(), strict=True):
        assert 1 < port["most_reads"] <= said["NUM_READ_OUTSTANDING"]
        assert 1 < port["most_writes"] <= said["NUM_WRITE_OUTSTANDING"]
        assert max(port["longest_read"], port["longest_write"]) == said["MAX_BURST_LENGTH"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda spec: Instantft(spec).trainer(), "instantft"),
        (lambda spec: Zotrain(spec).trainer(), "zotrain"),
        (lambda spec: ZerothOrderSequencer(spec, StreamPasses(spec)), "zostream"),
    ],
    ids=["instantft", "zotrain", "zostream"],
)
def test_the_ports_are_those_of_the_spec(make, name):
    trainer = make(CORES[name])
    Fragment.get(trainer, None)  # avoids Amaranth's warning about unused components
    memory = trainer.memory
    assert (memory.reader, memory.writer) == (CORES[name].reader, CORES[name].writer)
