# amaranth: UnusedElaboratable=no
"""The memory system: requesters of any name on one port, two ports, a cache RAM; faults, stop, settled."""

from enum import IntEnum

import numpy as np
import pytest
from amaranth.sim import Simulator

from fabtune.hw.cores.memory_system import MemorySystem

READS, WRITES = ("alpha", "bulk", "gamma"), ("bulk", "delta")
LIMIT = 4_000
OKAY, SLVERR, DECERR = 0, 2, 3
LATENCY = 20


class Error(IntEnum):
    """Error codes of the core under test."""

    BAD_COMMAND = 1
    READ_SLVERR = 5
    READ_DECERR = 6
    WRITE_SLVERR = 9
    WRITE_DECERR = 10


def content(address):
    """Beat that the memory outside holds at first."""
    return address // 16 * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


class Outside:
    """A memory behind AXI4 ports, with a latency, stalls and bad responses by address.

    Attributes
    ----------
    written : dict of int to int
        Beats by address.
    ports : dict of int to int
        Beats that went through each port.
    """

    def __init__(self, stall=0.0, bad=None):
        self.written, self.bad, self.stall = {}, bad or {}, stall
        self.ports, self.rng, self.outstanding = {}, np.random.default_rng(4), 0

    def willing(self):
        """Draw if something moves in this cycle."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, number, bus):
        """Serve the read half of a port."""

        async def bench(ctx):
            queue, valid, now = [], False, 0
            while True:
                now += 1
                ready = self.willing()
                ctx.set(bus.ar.ready, ready)
                if queue and not valid and queue[0][0] <= now and self.willing():
                    valid = True
                    _, address, last = queue[0]
                    data = self.written.get(address, content(address))
                    response = self.bad.get(("read", address), OKAY)
                    ctx.set(bus.r.payload, {"data": data, "response": response, "last": last})
                ctx.set(bus.r.valid, valid)
                *_, asked, burst, taken = await ctx.tick().sample(bus.ar.valid, bus.ar.payload, bus.r.ready)
                if valid and taken:
                    self.outstanding -= queue.pop(0)[2]
                    self.ports[number] = self.ports.get(number, 0) + 1
                    valid = False
                if asked and ready:
                    self.outstanding += 1
                    beats = range(burst.length + 1)
                    queue += [(now + LATENCY, burst.address + 16 * at, int(at == burst.length)) for at in beats]

        return bench

    def writer(self, number, bus):
        """Serve the write half of a port."""

        async def bench(ctx):
            bursts, answers, valid, now = [], [], False, 0
            while True:
                now += 1
                ready = [self.willing(), self.willing()]
                ctx.set(bus.aw.ready, ready[0])
                ctx.set(bus.w.ready, ready[1])
                if answers and not valid and answers[0][0] <= now and self.willing():
                    valid = True
                    ctx.set(bus.b.payload.response, answers[0][1])
                ctx.set(bus.b.valid, valid)
                *_, aw, burst, w, beat = await ctx.tick().sample(
                    bus.aw.valid, bus.aw.payload, bus.w.valid, bus.w.payload
                )
                if valid:
                    answers.pop(0)
                    self.outstanding -= 1
                    valid = False
                if aw and ready[0]:
                    self.outstanding += 1
                    bursts.append([burst.address, burst.address])
                if w and ready[1]:
                    self.written[bursts[0][1]] = beat.data
                    bursts[0][1] += 16
                    self.ports[number] = self.ports.get(number, 0) + 1
                    if beat.last:
                        first = bursts.pop(0)[0]
                        answers.append((now + LATENCY, self.bad.get(("write", first), OKAY)))

        return bench


async def read(ctx, port, commands, found):
    """Read through a port; the beats go to `found`."""
    for address, beats in commands:
        ctx.set(port.command.payload, {"address": address, "beats": beats})
        ctx.set(port.command.valid, 1)
        await ctx.tick().until(port.command.ready)
        ctx.set(port.command.valid, 0)
        ctx.set(port.beats.ready, 1)
        while beats:
            *_, valid, beat = await ctx.tick().sample(port.beats.valid, port.beats.payload)
            found += [beat] * valid
            beats -= valid
        ctx.set(port.beats.ready, 0)


async def write(ctx, port, commands):
    """Write through a port; each beat is its address plus 1."""
    for address, beats in commands:
        ctx.set(port.command.payload, {"address": address, "beats": beats})
        ctx.set(port.command.valid, 1)
        await ctx.tick().until(port.command.ready)
        ctx.set(port.command.valid, 0)
        for at in range(beats):
            ctx.set(port.beats.payload, address + 16 * at + 1)
            ctx.set(port.beats.valid, 1)
            await ctx.tick().until(port.beats.ready)
        ctx.set(port.beats.valid, 0)


def run(dut, outside, *bodies):
    """Simulate until all bodies have returned."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for body in bodies:
        simulator.add_testbench(body)

    async def limit(ctx):
        for _ in range(LIMIT):
            await ctx.tick()
        raise AssertionError(f"not over after {LIMIT} cycles")

    simulator.add_testbench(limit, background=True)
    for port in range(dut.ports):
        simulator.add_testbench(outside.reader(port, getattr(dut, f"reader{port}")), background=True)
        simulator.add_testbench(outside.writer(port, getattr(dut, f"writer{port}")), background=True)
    simulator.run()


MEMORIES = {"one port": {}, "two ports": {"ports": 2}, "cache RAM": {"ram_beats": 64}}


def system(**memories):
    """A memory system for the requesters."""
    return MemorySystem(READS, WRITES, Error, bulk=("bulk",), buffered=("alpha", "bulk"), **memories)


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("memories", MEMORIES)
def test_every_requester_gets_its_own_beats(memories, stall):
    dut, outside = system(**MEMORIES[memories]), Outside(stall)
    commands = {"alpha": [(0x1000, 5), (0x1FE0, 70), (0, 1)], "bulk": [(0x0, 3), (0x100, 9)], "gamma": [(0x5000, 20)]}
    found = {name: [] for name in READS}

    def reader(name):
        async def body(ctx):
            if name == "bulk":  # a cache RAM holds what was written
                await write(ctx, dut.bulk_write, commands["bulk"])
                await ctx.tick().repeat(3)
                await ctx.tick().until(dut.settled)
            await read(ctx, getattr(dut, f"{name}_read"), commands[name], found[name])

        return body

    async def writer(ctx):
        await write(ctx, dut.delta_write, [(0x9000, 4), (0xA000, 33)])
        await ctx.tick().repeat(3)
        await ctx.tick().until(dut.settled)
        assert all(outside.written[0x9000 + 16 * at] == 0x9000 + 16 * at + 1 for at in range(4))
        assert all(outside.written[0xA000 + 16 * at] == 0xA000 + 16 * at + 1 for at in range(33))

    run(dut, outside, writer, *map(reader, READS))
    for name in READS:
        addresses = [address + 16 * at for address, beats in commands[name] for at in range(beats)]
        if name == "bulk":
            assert found[name] == [address + 1 for address in addresses]
        elif name == "gamma":
            assert found[name] == [content(address) for address in addresses]
    assert len(found["alpha"]) == 76
    bulk = 2 * sum(beats for _, beats in commands["bulk"])
    assert outside.ports.get(1, 0) == (bulk if memories == "two ports" else 0)
    assert outside.ports[0] == 76 + 20 + 37 + (bulk if memories == "one port" else 0)


@pytest.mark.parametrize(
    ("kind", "response", "error"),
    [
        ("read", SLVERR, Error.READ_SLVERR),
        ("read", DECERR, Error.READ_DECERR),
        ("write", SLVERR, Error.WRITE_SLVERR),
        ("write", DECERR, Error.WRITE_DECERR),
    ],
)
@pytest.mark.parametrize("ports", [1, 2])
def test_the_first_bad_response_is_a_fault(kind, response, error, ports):
    dut, outside = system(ports=ports), Outside(bad={(kind, 0x2000): response})

    async def body(ctx):
        if kind == "read":
            port = dut.bulk_read
            ctx.set(port.beats.ready, 1)
        else:
            port = dut.bulk_write
            ctx.set(port.beats.valid, 1)
        ctx.set(port.command.payload, {"address": 0x2000, "beats": 2})
        ctx.set(port.command.valid, 1)
        await ctx.tick().until(port.command.ready)
        ctx.set(port.command.valid, 0)
        await ctx.tick().until(dut.fault.failed)
        for _ in range(20):
            fault = dut.fault
            assert (ctx.get(fault.failed), ctx.get(fault.error), ctx.get(fault.address)) == (1, error, 0x2000)
            await ctx.tick()

    run(dut, outside, body)


def test_stop_drains_what_is_outstanding():
    dut, outside = system(), Outside()

    async def body(ctx):
        port = dut.gamma_read
        assert ctx.get(dut.quiet)
        ctx.set(port.command.payload, {"address": 0x3000, "beats": 2000})
        ctx.set(port.command.valid, 1)
        await ctx.tick().until(port.command.ready)
        ctx.set(port.command.valid, 0)
        await ctx.tick().repeat(12)
        assert outside.outstanding > 0
        assert not ctx.get(dut.quiet)
        ctx.set(dut.stop, 1)
        await ctx.tick().repeat(4)
        await ctx.tick().until(dut.quiet)
        assert outside.outstanding == 0
        before = outside.ports[0]
        assert before < 2000
        await ctx.tick().repeat(50)
        assert (outside.ports[0], ctx.get(dut.quiet), ctx.get(port.beats.valid)) == (before, 1, 0)

    run(dut, outside, body)


def test_settled_waits_for_the_answers():
    dut, outside = system(), Outside()

    async def body(ctx):
        await ctx.tick().repeat(2)
        assert ctx.get(dut.settled)
        await write(ctx, dut.delta_write, [(0x4000, 1)])
        for _ in range(LATENCY):
            await ctx.tick()
            assert not ctx.get(dut.settled)
        await ctx.tick().until(dut.settled)
        assert outside.outstanding == 0

    run(dut, outside, body)
