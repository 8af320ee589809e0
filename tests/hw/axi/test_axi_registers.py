# amaranth: UnusedElaboratable=no
"""The registers on their bus."""

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.axi.axi_registers import AxiRegistersSpec
from fabtune.golden.axi.register_map import Register, RegisterField, RegisterMap
from fabtune.golden.cores.instantft.registers import REGISTERS, Command
from fabtune.hw.axi.axi_registers import AxiRegisters

OKAY, SLVERR = 0, 2
SIGNATURE = 0xFAB7C0DE
SPEC = AxiRegistersSpec(signature=SIGNATURE)
FREE = next(offset for offset in range(0, 256, 4) if offset not in [register.offset for register in REGISTERS])
LOCKED = [item.name for item in REGISTERS if item.locked]
ORDERS = ("both", "aw", "w")
"""Which of a write's channels comes first."""
BY_ACCESS = {access: [item for item in REGISTERS if item.access == access] for access in ("R", "W", "RW", "W1C")}


class Host:
    """A manager that stalls at random, and notes the cycles in which `command_strobe` is 1.

    With `locks` it also is the core: `locked` rises in the cycle after `command_strobe`, as a flip-flop does.
    """

    def __init__(self, ctx, dut, stall=0.0, seed=1):
        self.ctx, self.dut, self.stall, self.rng = ctx, dut, stall, np.random.default_rng(seed)
        self.strobes, self.times, self.cycle, self.locks = [], [], 0, False

    async def tick(self, *signals):
        if not hasattr(self.dut, "command"):
            return (await self.ctx.tick().sample(*signals))[2:]
        sampled = await self.ctx.tick().sample(self.dut.command_strobe, self.dut.command, *signals)
        strobe, command, *values = sampled[2:]
        self.strobes += [command] * strobe
        self.times += [self.cycle] * strobe
        self.cycle += 1
        if strobe and self.locks:
            self.ctx.set(self.dut.locked, 1)
        return values

    async def wait(self):
        while self.rng.random() < self.stall:
            await self.tick()

    async def send(self, *channels):
        """Offer all of the channels from now on, until each has been taken."""
        left = list(channels)
        for channel in left:
            self.ctx.set(channel.valid, 1)
        while left:
            readies = await self.tick(*(channel.ready for channel in left))
            for channel in [channel for channel, ready in zip(left, readies, strict=True) if ready]:
                self.ctx.set(channel.valid, 0)
                left.remove(channel)

    async def take(self, channel):
        await self.wait()
        self.ctx.set(channel.ready, 1)
        valid = False
        while not valid:
            valid, payload = await self.tick(channel.valid, channel.payload)
        self.ctx.set(channel.ready, 0)
        return payload

    async def post(self, offset, value, strobe=0xF, order="both"):
        """Write without waiting for the answer: where answers are taken, the next write can follow at once."""
        bus = self.dut.bus
        self.ctx.set(bus.aw.payload.address, offset)
        self.ctx.set(bus.w.payload, {"data": value, "strobe": strobe})
        rounds = {"both": [(bus.aw, bus.w)], "aw": [(bus.aw,), (bus.w,)], "w": [(bus.w,), (bus.aw,)]}[order]
        for channels in rounds:
            await self.wait()
            await self.send(*channels)

    async def write(self, offset, value, strobe=0xF, order="both"):
        await self.post(offset, value, strobe, order)
        return (await self.take(self.dut.bus.b)).response

    async def read(self, offset):
        self.ctx.set(self.dut.bus.ar.payload.address, offset)
        await self.wait()
        await self.send(self.dut.bus.ar)
        answer = await self.take(self.dut.bus.r)
        return answer.data, answer.response


def simulate(body, stall=0.0, spec=SPEC):
    """Run ``body(ctx, dut, host)``."""
    dut = AxiRegisters(spec)

    async def bench(ctx):
        await body(ctx, dut, Host(ctx, dut, stall))

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_settings_are_kept(order, stall):
    async def body(ctx, dut, host):
        values = {item.name: int(host.rng.integers(2**32)) for item in BY_ACCESS["RW"]}
        for name, value in values.items():
            assert await host.write(REGISTERS[name].offset, value, order=order) == OKAY
        for name, value in values.items():
            assert await host.read(REGISTERS[name].offset) == (value, OKAY)
            assert ctx.get(getattr(dut, name)) == value
        assert host.strobes == []

    simulate(body, stall)


def test_byte_strobes_are_honoured():
    async def body(ctx, dut, host):
        expected = 0
        for _ in range(40):
            value, strobe = int(host.rng.integers(2**32)), int(host.rng.integers(16))
            mask = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
            expected = expected & ~mask | value & mask
            assert await host.write(REGISTERS["rate"].offset, value, strobe) == OKAY
            assert ctx.get(dut.rate) == expected

    simulate(body)


def test_what_the_core_shows_is_read():
    async def body(ctx, dut, host):
        shown = {item.name: int(host.rng.integers(2**32)) for item in BY_ACCESS["R"] if item.name != "signature"}
        for name, value in shown.items():
            ctx.set(getattr(dut, name), value)
        for name, value in {**shown, "signature": SIGNATURE}.items():
            assert await host.read(REGISTERS[name].offset) == (value, OKAY)
            assert await host.write(REGISTERS[name].offset, ~value % 2**32) == SLVERR
            assert await host.read(REGISTERS[name].offset) == (value, OKAY)

    simulate(body, 0.3)


def test_addresses_without_a_register_answer_slverr():
    async def body(ctx, dut, host):
        for offset in (FREE, 0xFC):
            assert await host.write(offset, 1) == SLVERR
            assert await host.read(offset) == (0, SLVERR)
        assert await host.read(REGISTERS["mode"].offset) == (0, OKAY)

    simulate(body)


def test_a_command_strobes_once():
    async def body(ctx, dut, host):
        for command in Command:
            assert await host.write(REGISTERS["command"].offset, command) == OKAY
        assert await host.write(REGISTERS["command"].offset, 0xFFFF_FF03, strobe=1) == OKAY
        assert await host.write(REGISTERS["command"].offset, 3, strobe=0) == OKAY
        assert await host.read(REGISTERS["command"].offset) == (0, OKAY)
        assert host.strobes == [*Command, 3]

    simulate(body, 0.3)


def test_locked_registers_ignore_writes():
    async def body(ctx, dut, host):
        await host.write(REGISTERS["rate"].offset, 5)
        ctx.set(dut.locked, 1)
        for name in ("rate", "command", "interrupt_enable"):
            assert await host.write(REGISTERS[name].offset, 9) == OKAY
        assert (ctx.get(dut.rate), ctx.get(dut.interrupt_enable), host.strobes) == (5, 9, [])
        ctx.set(dut.locked, 0)
        await host.write(REGISTERS["rate"].offset, 7)
        assert ctx.get(dut.rate) == 7

    simulate(body)


@pytest.mark.parametrize("high", range(-1, 4))
def test_the_lock_counts_in_the_cycle_before_the_new_value(high):
    """`locked` is high in one cycle alone, so many after the one in which address and data are taken."""

    async def body(ctx, dut, host):
        bus = dut.bus
        ctx.set(bus.b.ready, 1)
        ctx.set(dut.locked, high == -1)
        await host.tick()
        ctx.set(dut.locked, high == 0)
        await host.post(REGISTERS["rate"].offset, 5)
        for cycle in range(1, 5):
            ctx.set(dut.locked, high == cycle)
            await host.tick()
        assert ctx.get(dut.rate) == (0 if high == AxiRegisters.LATENCY - 1 else 5)

    simulate(body)


@pytest.mark.parametrize("order", ORDERS)
def test_at_most_every_other_cycle_a_write_takes_effect(order):
    async def body(ctx, dut, host):
        ctx.set(dut.bus.b.ready, 1)
        for command in range(1, 41):
            await host.post(REGISTERS["command"].offset, command, order=order)
        for _ in range(3):
            await host.tick()
        assert host.strobes == list(range(1, 41))
        assert set(np.diff(host.times)) == {2 if order == "both" else 3}

    simulate(body)


@pytest.mark.parametrize("first", ORDERS)
def test_a_core_that_locks_a_cycle_after_the_strobe_ignores_all_that_follows(first):
    """Every locked register, from the earliest write behind the command on, and after the lock as before."""

    async def body(ctx, dut, host):
        ctx.set(dut.bus.b.ready, 1)
        host.locks = True
        for name, order, distance in [
            (name, order, cycles) for name in LOCKED for order in ORDERS for cycles in range(5)
        ]:
            host.strobes.clear()
            before = ctx.get(getattr(dut, name))
            await host.post(REGISTERS["command"].offset, 3, order=first)
            for _ in range(distance):
                await host.tick()
            await host.post(REGISTERS[name].offset, before ^ 5, order=order)
            for _ in range(3):
                await host.tick()
            assert (ctx.get(dut.command), host.strobes) == (3, [3]), (name, order, distance)
            assert ctx.get(getattr(dut, name)) == (3 if name == "command" else before), (name, order, distance)
            ctx.set(dut.locked, 0)
            host.locks = False
            await host.post(REGISTERS[name].offset, before ^ 5, order=order)
            for _ in range(3):
                await host.tick()
            assert ctx.get(getattr(dut, name)) == before ^ 5, (name, order, distance)
            host.locks = True

    simulate(body)


def test_a_map_of_ones_own_has_its_ports_and_reset_values():
    events = Register("event", 0, "W1C", "", (RegisterField("early", 0, 1, ""), RegisterField("late", 9, 1, "")))
    registers = RegisterMap("own", (events, Register("limit", 4, "RW", "", reset=0x1234), Register("now", 8, "R", "")))

    async def body(ctx, dut, host):
        assert await host.read(4) == (0x1234, OKAY)
        ctx.set(dut.now, 77)
        assert await host.read(8) == (77, OKAY)
        ctx.set(dut.late, 1)
        await host.tick()
        ctx.set(dut.late, 0)
        assert await host.read(0) == (1 << 9, OKAY)
        assert ctx.get(dut.event_line)
        await host.write(0, 1)
        assert ctx.get(dut.event_line)
        await host.write(0, 1 << 9)
        assert not ctx.get(dut.event_line)

    simulate(body, spec=AxiRegistersSpec(registers=registers))


def test_the_interrupt_is_kept_and_cleared():
    async def body(ctx, dut, host):
        enable, pending = REGISTERS["interrupt_enable"].offset, REGISTERS["interrupt"].offset

        async def finish():
            ctx.set(dut.finished, 1)
            await host.tick()
            ctx.set(dut.finished, 0)

        await finish()
        assert await host.read(pending) == (1, OKAY)
        assert not ctx.get(dut.interrupt_line)
        await host.write(enable, 1)
        assert ctx.get(dut.interrupt_line)
        await host.write(pending, 0)
        await host.write(pending, 0xFFFF_FFFE)
        await host.write(pending, 0xFFFF_FFFF, strobe=0b1110)
        assert ctx.get(dut.interrupt_line)
        await host.write(pending, 1)
        assert not ctx.get(dut.interrupt_line)
        assert await host.read(pending) == (0, OKAY)
        ctx.set(dut.finished, 1)  # while it is being cleared
        await host.write(pending, 1)
        assert ctx.get(dut.interrupt_line)

    simulate(body)


def test_latency_is_what_the_class_says():
    async def body(ctx, dut, host):
        bus = dut.bus
        ctx.set(bus.aw.payload.address, REGISTERS["batch"].offset)
        ctx.set(bus.w.payload, {"data": 7, "strobe": 0xF})
        await host.send(bus.aw, bus.w)
        assert await host.tick(dut.batch, bus.b.valid) == [0, 0]
        assert await host.tick(dut.batch, bus.b.valid) == [7, 1]
        ctx.set(bus.ar.payload.address, REGISTERS["batch"].offset)
        await host.send(bus.ar)
        assert await host.tick(bus.r.valid) == [0]
        valid, answer = await host.tick(bus.r.valid, bus.r.payload)
        assert (valid, answer.data) == (1, 7)

    simulate(body)


def test_answers_wait_for_the_host():
    async def body(ctx, dut, host):
        bus = dut.bus
        for channel, offset in ((bus.aw, "rate"), (bus.ar, "signature")):
            ctx.set(channel.payload.address, REGISTERS[offset].offset)
        ctx.set(bus.w.payload, {"data": 5, "strobe": 0xF})
        await host.send(bus.aw, bus.w, bus.ar)
        ctx.set(bus.aw.payload.address, FREE)
        ctx.set(bus.ar.payload.address, FREE)
        await host.send(bus.aw, bus.w)
        ctx.set(bus.ar.valid, 1)
        for _ in range(10):
            await host.tick()
        assert (await host.take(bus.b)).response == OKAY
        assert (await host.take(bus.b)).response == SLVERR
        assert (await host.take(bus.r)).data == SIGNATURE
        assert (await host.take(bus.r)).response == SLVERR

    simulate(body)


def test_an_answer_does_not_change_while_it_waits():
    async def body(ctx, dut, host):
        ctx.set(dut.status, 5)
        ctx.set(dut.bus.ar.payload.address, REGISTERS["status"].offset)
        await host.send(dut.bus.ar)
        for _ in range(4):
            await host.tick()
        ctx.set(dut.status, 6)
        await host.tick()
        assert (await host.take(dut.bus.r)).data == 5

    simulate(body)


def test_paths_are_short():
    estimate = estimate_rtlil(rtlil.convert(AxiRegisters(AxiRegistersSpec()), name="top", emit_src=False), "top")
    assert estimate.logic_levels <= 4
    assert estimate.resources["bram36"] == estimate.resources["dsp"] == 0
