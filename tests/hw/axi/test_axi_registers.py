# amaranth: UnusedElaboratable=no
"""The registers on their bus."""

import numpy as np
import pytest
from amaranth.back import rtlil

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.axi.axi_registers import OKAY, SLVERR, AxiRegistersSpec
from fabtune.golden.axi.register_map import Register, RegisterField, RegisterMap
from fabtune.golden.cores.adapters.registers import Command
from fabtune.golden.cores.instantft.registers import REGISTERS
from fabtune.hw.axi.axi_registers import AxiRegisters

from ..lite import ORDERS, Lite
from ..simulation import simulate

SIGNATURE = 0xFAB7C0DE
SPEC = AxiRegistersSpec(signature=SIGNATURE)
FREE = next(offset for offset in range(0, 256, 4) if offset not in [register.offset for register in REGISTERS])
LOCKED = [item.name for item in REGISTERS if item.locked]
BY_ACCESS = {access: [item for item in REGISTERS if item.access == access] for access in ("R", "W", "RW", "W1C")}


class Host(Lite):
    """A manager that records the cycles of `command_strobe`.

    With `locks` it also acts as the core: `locked` rises in the cycle after `command_strobe`, like a flip-flop.
    """

    def __init__(self, ctx, dut, stall=0.0):
        super().__init__(ctx, dut.bus, stall)
        self.dut, self.strobes, self.times, self.cycle, self.locks = dut, [], [], 0, False

    async def tick(self, *signals):
        if not hasattr(self.dut, "command"):
            return await super().tick(*signals)
        strobe, command, *values = await super().tick(self.dut.command_strobe, self.dut.command, *signals)
        self.strobes += [command] * strobe
        self.times += [self.cycle] * strobe
        self.cycle += 1
        if strobe and self.locks:
            self.ctx.set(self.dut.locked, 1)
        return values


def play(body, stall=0.0, spec=SPEC):
    """Simulate until ``body(ctx, dut, host)`` returns."""
    dut = AxiRegisters(spec)

    async def bench(ctx):
        await body(ctx, dut, Host(ctx, dut, stall))

    simulate(dut, bench)


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

    play(body, stall)


def test_byte_strobes_are_honoured():
    async def body(ctx, dut, host):
        expected = 0
        for _ in range(40):
            value, strobe = int(host.rng.integers(2**32)), int(host.rng.integers(16))
            mask = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
            expected = expected & ~mask | value & mask
            assert await host.write(REGISTERS["rate"].offset, value, strobe) == OKAY
            assert ctx.get(dut.rate) == expected

    play(body)


def test_what_the_core_shows_is_read():
    async def body(ctx, dut, host):
        shown = {item.name: int(host.rng.integers(2**32)) for item in BY_ACCESS["R"] if item.name != "signature"}
        for name, value in shown.items():
            ctx.set(getattr(dut, name), value)
        for name, value in {**shown, "signature": SIGNATURE}.items():
            assert await host.read(REGISTERS[name].offset) == (value, OKAY)
            assert await host.write(REGISTERS[name].offset, ~value % 2**32) == SLVERR
            assert await host.read(REGISTERS[name].offset) == (value, OKAY)

    play(body, 0.3)


def test_addresses_without_a_register_answer_slverr():
    async def body(ctx, dut, host):
        for offset in (FREE, 0xF8):
            assert await host.write(offset, 1) == SLVERR
            assert await host.read(offset) == (0, SLVERR)
        assert await host.read(REGISTERS["mode"].offset) == (0, OKAY)

    play(body)


def test_a_command_strobes_once():
    async def body(ctx, dut, host):
        for command in Command:
            assert await host.write(REGISTERS["command"].offset, command) == OKAY
        assert await host.write(REGISTERS["command"].offset, 0xFFFF_FF03, strobe=1) == OKAY
        assert await host.write(REGISTERS["command"].offset, 3, strobe=0) == OKAY
        assert await host.read(REGISTERS["command"].offset) == (0, OKAY)
        assert host.strobes == [*Command, 3]

    play(body, 0.3)


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

    play(body)


@pytest.mark.parametrize("high", range(-1, 4))
def test_the_lock_counts_in_the_cycle_before_the_new_value(high):
    """`locked` is high for one cycle, at each distance from the cycle that takes address and data."""

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

    play(body)


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

    play(body)


@pytest.mark.parametrize("first", ORDERS)
def test_a_core_that_locks_a_cycle_after_the_strobe_ignores_all_that_follows(first):
    """Every locked register, from the earliest write after the command; and unlocked again afterwards."""

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

    play(body)


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

    play(body, spec=AxiRegistersSpec(registers=registers))


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
        ctx.set(dut.finished, 1)  # during the clear
        await host.write(pending, 1)
        assert ctx.get(dut.interrupt_line)

    play(body)


def test_a_bit_that_is_set_stays_until_all_is_cleared():
    async def body(ctx, dut, host):
        reset = REGISTERS["soft_reset"].offset
        for value, strobe in ((0xFFFF_FFFE, 0xF), (1, 0b1110)):
            assert await host.write(reset, value, strobe) == OKAY
            assert await host.read(reset) == (0, OKAY)
        for value in (0xFFFF_FFFF, 0):
            assert await host.write(reset, value) == OKAY
            assert await host.read(reset) == (1, OKAY)
        assert ctx.get(dut.soft_reset) == 1

    play(body, 0.3)


@pytest.mark.parametrize("cycle", range(-1, 6))
@pytest.mark.parametrize("name", ["rate", "command", "soft_reset", "interrupt_enable"])
def test_a_clear_wins_over_a_write_and_leaves_the_bus_alone(name, cycle):
    """`clear` is high for one cycle, at each distance from the cycle that takes the write."""

    async def body(ctx, dut, host):
        before = {"rate": 7, "interrupt_enable": 1}
        for one, value in before.items():
            await host.write(REGISTERS[one].offset, value)
        ctx.set(dut.finished, 1)
        await host.tick()
        ctx.set(dut.finished, 0)
        ctx.set(dut.bus.b.ready, 1)
        ctx.set(dut.clear, cycle == -1)
        await host.tick()
        ctx.set(dut.clear, cycle == 0)
        await host.post(REGISTERS[name].offset, 3, order="both")
        answers = 0
        for at in range(1, 8):
            ctx.set(dut.clear, cycle == at)
            ctx.set(dut.finished, cycle == at)
            answers += (await host.tick(dut.bus.b.valid))[0]
        assert answers == 1
        lost = cycle >= AxiRegisters.LATENCY - 1
        kept = {"rate": 3, "command": 3, "soft_reset": 1, "interrupt_enable": 3}[name]
        found = {one: ctx.get(getattr(dut, one)) for one in ("rate", "command", "soft_reset", "interrupt_enable")}
        assert found == dict.fromkeys(found, 0) | ({} if lost else {name: kept})
        assert await host.read(REGISTERS["interrupt"].offset) == (0, OKAY)
        # a command cleared in its strobe cycle has no strobe
        assert host.strobes == ([3] if name == "command" and cycle != AxiRegisters.LATENCY - 1 else [])

    play(body)


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

    play(body)


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

    play(body)


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

    play(body)


def test_paths_are_short():
    estimate = estimate_rtlil(rtlil.convert(AxiRegisters(AxiRegistersSpec()), name="top", emit_src=False), "top")
    assert estimate.logic_levels <= 4
    assert estimate.resources["bram36"] == estimate.resources["dsp"] == 0
