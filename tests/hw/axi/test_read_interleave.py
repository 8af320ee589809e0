"""Reads over several ports: each goes to the selected port, and beats return in order, whichever port is late."""

import numpy as np
import pytest

from fabtune.hw.axi.read_interleave import OUTSTANDING, ReadInterleave

from ..outside import content
from ..play import play_interface

BURST = 4
PORTS = ("port0", "port1", "port2")


def port_of(address):
    """The port of a memory block."""
    return PORTS[address // (16 * BURST) % len(PORTS)]


def memory(name, latency, found, busy=0.0):
    """A memory port: a beat a cycle, at least `latency` cycles after the command."""
    rng = np.random.default_rng(PORTS.index(name))

    def bench_of(dut):
        port = getattr(dut, name)

        async def bench(ctx):
            queue, now = [], 0
            while True:
                ready = rng.random() >= busy
                ctx.set(port.command.ready, ready)
                valid = bool(queue) and queue[0][0] <= now
                ctx.set(port.beats.valid, valid)
                ctx.set(port.beats.payload, content(queue[0][1]) if valid else 0)
                *_, asked, command, taken = await ctx.tick().sample(
                    port.command.valid, port.command.payload, port.beats.ready
                )
                now += 1
                if valid and taken:
                    queue.pop(0)
                if asked and ready:
                    found[name].append(command.address)
                    queue += [(now + latency, command.address + 16 * at) for at in range(command.beats)]

        return bench

    return bench_of


def run(reads, latency, direct=False, stall=0.0):
    """Run reads on ports with these latencies; returns requests per port, and beats."""
    dut, found = ReadInterleave(len(PORTS), most=2 * BURST, direct=direct), {name: [] for name in PORTS}
    benches = [memory(name, latency[name], found, stall)(dut) for name in PORTS]

    async def choose(ctx):
        async for address in ctx.changed(dut.read.command.payload):
            ctx.set(dut.port, PORTS.index(port_of(address[0].address)))

    benches.append(choose)
    given = [{"address": address, "beats": beats} for address, beats in reads]
    total = sum(beats for _, beats in reads)
    seen = play_interface(
        dut, {"read.command": given}, {"read.beats": total}, background=benches, stall=stall, limit=4000
    )
    return found, seen


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("latency", [(5, 5, 5), (5, 60, 30), (60, 5, 5)], ids=["alike", "later", "first is late"])
def test_beats_come_in_the_order_of_the_reads(latency, direct, stall):
    rng = np.random.default_rng(3)
    # a stream from the middle of a block, then reads of arbitrary address and length
    reads = [(0x1030, 1), *((0x1040 + 64 * at, BURST) for at in range(9)), (0x1280, 2)]
    reads += [(16 * int(rng.integers(1 << 20)), int(rng.integers(1, 2 * BURST))) for _ in range(40)]
    found, seen = run(reads, dict(zip(PORTS, latency, strict=True)), direct, stall)
    assert seen.words("read.beats") == [content(first + 16 * at) for first, beats in reads for at in range(beats)]
    for name in PORTS:
        assert found[name] == [first for first, _ in reads if port_of(first) == name]


@pytest.mark.parametrize("latency", [20, 90])
def test_a_stream_comes_at_a_beat_a_cycle(latency):
    reads = [(0x1000 + 64 * at, BURST) for at in range(40)]
    _, seen = run(reads, dict.fromkeys(PORTS, latency))
    times = seen.cycles("read.beats")
    # as many outstanding reads as beats in the longer latency
    assert latency < BURST * OUTSTANDING
    assert times[-1] - times[0] == 40 * BURST - 1
    assert times[0] == seen["read.command"][0][0] + latency + 2
