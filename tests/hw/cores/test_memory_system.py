# amaranth: UnusedElaboratable=no
"""The memory system: requesters of any name on one port, two ports, a cache RAM; faults, stop, settled."""

from enum import IntEnum

import pytest

from fabtune.hw.axi.bus import Response
from fabtune.hw.cores.memory_system import MemorySystem

from ...small_cores import single_axis
from ..outside import LATENCY, Outside, content
from ..play import play_interface

READS, WRITES = ("alpha", "bulk", "gamma"), ("bulk", "delta")
LIMIT = 4_000


class Error(IntEnum):
    """Error codes of the core under test."""

    BAD_COMMAND = 1
    READ_SLVERR = 5
    READ_DECERR = 6
    WRITE_SLVERR = 9
    WRITE_DECERR = 10


async def read(bench, name, commands, ports=("",)):
    """Read beats through a port, or through several alternately."""
    found = []
    for at, (address, beats) in enumerate(commands):
        port = f"{name}_read{ports[at % len(ports)]}"
        await bench.give(f"{port}.command", [{"address": address, "beats": beats}])
        found += await bench.take(f"{port}.beats", beats)
    return found


async def write(bench, name, commands):
    """Write through a port; each beat is its address plus 1."""
    for address, beats in commands:
        await bench.give(f"{name}_write.command", [{"address": address, "beats": beats}])
        await bench.give(f"{name}_write.beats", [address + 16 * at + 1 for at in range(beats)])


def run(dut, outside, *bodies, stall=0.0):
    """Play until all bodies have returned."""
    ports = [(at, getattr(dut, f"reader{at}"), getattr(dut, f"writer{at}")) for at in range(dut.ports)]
    background = [half for at, *buses in ports for half in (outside.reader(at, buses[0]), outside.writer(at, buses[1]))]
    play_interface(dut, body=list(bodies), background=background, stall=stall, limit=LIMIT)


MEMORIES = {
    "one port": {},
    "two ports": {"ports": 2, "spread": ("bulk",)},
    "commands in registers": {"ports": 2, "spread": ("bulk",), "registered": True},
    "cache RAM": {"on_chip": ("bulk",), "ram_beats": 64},
}


def system(**memories):
    """A memory system for these requesters."""
    return MemorySystem(READS, WRITES, Error, buffered=("alpha", "bulk"), **memories)


@pytest.mark.parametrize(("memories", "stall"), single_axis(MEMORIES, [0.4, 0.0]))
def test_every_requester_gets_its_own_beats(memories, stall):
    dut, outside, found = system(**MEMORIES[memories]), Outside(stall), {}
    commands = {"alpha": [(0x1000, 5), (0x1FE0, 70), (0, 1)], "bulk": [(0x0, 3), (0x100, 9)], "gamma": [(0x5000, 20)]}

    def reader(name):
        async def body(bench):
            if name == "bulk":  # a cache RAM returns written data
                await write(bench, "bulk", commands["bulk"])
                await bench.tick(3)
                await bench.until("settled")
            found[name] = await read(bench, name, commands[name], ("1", "") if name in dut.spread else ("",))

        return body

    async def writer(bench):
        await write(bench, "delta", [(0x9000, 4), (0xA000, 33)])
        await bench.tick(3)
        await bench.until("settled")
        assert all(outside.written[0x9000 + 16 * at] == 0x9000 + 16 * at + 1 for at in range(4))
        assert all(outside.written[0xA000 + 16 * at] == 0xA000 + 16 * at + 1 for at in range(33))

    run(dut, outside, writer, *map(reader, READS), stall=stall)
    for name in READS:
        addresses = [address + 16 * at for address, beats in commands[name] for at in range(beats)]
        if name == "bulk":
            assert found[name] == [address + 1 for address in addresses]
        elif name == "gamma":
            assert found[name] == [content(address) for address in addresses]
    assert len(found["alpha"]) == 76
    # written through the first port; interleaved data is read through both ports
    assert outside.ports.get(1, 0) == (3 if dut.spread else 0)
    assert outside.ports[0] == 76 + 20 + 37 + (0 if dut.on_chip else 21 if dut.spread else 24)


@pytest.mark.parametrize(
    ("ports", "response", "kind"), single_axis([2, 1, 3], [Response.SLVERR, Response.DECERR], ["read", "write"])
)
def test_the_first_bad_response_is_a_fault(kind, response, ports):
    error = Error[f"{kind.upper()}_{response.name}"]
    dut, outside = system(ports=ports, spread=("bulk",)), Outside(bad={(kind, 0x2000): response})

    async def body(bench):
        port = f"bulk_{kind}{ports - 1 if ports > 1 and kind == 'read' else ''}"
        bench.set({f"{port}.beats.ready" if kind == "read" else f"{port}.beats.valid": 1})
        await bench.give(f"{port}.command", [{"address": 0x2000, "beats": 2}])
        await bench.until("fault.failed")
        for _ in range(20):
            fault = tuple(bench.get(f"fault.{name}") for name in ("failed", "error", "address"))
            assert fault == (1, error, 0x2000)
            await bench.tick()

    run(dut, outside, body)


def test_a_second_port_that_nothing_is_written_through_stays_idle_there():
    dut = MemorySystem(("alpha", "odd"), ("delta",), Error, spread=("odd",), ports=2)
    outside, found = Outside(0.3), {}

    async def body(bench):
        await write(bench, "delta", [(0x9000, 4)])
        for name, port in (("alpha", ""), ("odd", "1")):
            found[name] = await read(bench, name, [(0x2000, 70)], (port,))
        await bench.until("settled")
        await bench.tick(3)
        assert bench.get("quiet")
        assert not bench.get("writer1.aw.valid")
        bench.set({"odd_read1.command.payload": {"address": 0x5000, "beats": 200}, "odd_read1.command.valid": 1})
        await bench.tick(12)
        # waits only for the reads of the second port
        bench.set(stop=1)
        assert not bench.get("quiet")
        await bench.until("quiet")
        assert outside.outstanding == 0

    run(dut, outside, body)
    assert found["alpha"] == found["odd"] == [content(0x2000 + 16 * at) for at in range(70)]
    assert outside.ports == {0: 70 + 4, 1: outside.ports[1]}
    assert outside.ports[1] > 70


def test_stop_drains_what_is_outstanding():
    dut, outside = system(), Outside()

    async def body(bench):
        assert bench.get("quiet")
        await bench.give("gamma_read.command", [{"address": 0x3000, "beats": 2000}])
        await bench.tick(12)
        assert outside.outstanding > 0
        assert not bench.get("quiet")
        bench.set(stop=1)
        await bench.tick(4)
        await bench.until("quiet")
        assert outside.outstanding == 0
        before = outside.ports[0]
        assert before < 2000
        await bench.tick(50)
        assert (outside.ports[0], bench.get("quiet"), bench.get("gamma_read.beats.valid")) == (before, 1, 0)

    run(dut, outside, body)


def test_settled_waits_for_the_answers():
    dut, outside = system(), Outside()

    async def body(bench):
        await bench.tick(2)
        assert bench.get("settled")
        await write(bench, "delta", [(0x4000, 1)])
        for _ in range(LATENCY):
            await bench.tick()
            assert not bench.get("settled")
        await bench.until("settled")
        assert outside.outstanding == 0

    run(dut, outside, body)
