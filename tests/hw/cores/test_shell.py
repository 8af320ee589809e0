# amaranth: UnusedElaboratable=no
"""The shell with a trainer played by the bench: commands, checks, faults, abort, interrupt, counters, reset."""

from enum import IntEnum

import pytest
from amaranth.hdl import ResetInserter, Signal

from fabtune.golden.cores.core import Check
from fabtune.golden.cores.shell import Address, CoreRegisters, Counter, Setting
from fabtune.hw.cores.shell import DRAIN_CYCLES, RESET_CYCLES, RESET_DELAY, Shell

from ..lite import ORDERS, LiteHost
from ..simulation import simulate

SIGNATURE = 0x5EED0001
LONGEST = 9


class Command(IntEnum):
    """Commands of the core under test."""

    FILL = 1
    DRAIN = 2
    REST = 3


class Error(IntEnum):
    """Error codes of the core under test."""

    BAD_COMMAND = 1
    TOO_LONG = 2
    BAD_ADDRESS = 3
    BROKEN = 11


CORE = CoreRegisters(
    "toy",
    Command,
    Error,
    settings=(Address("address", "of the words", commands=(Command.FILL,)), Setting("length", "words", reset=5)),
    counters=(Counter("words", "words filled"), Counter("sums", "sum of steps", width=6)),
)
IDLE, DONE = {"busy": 0, "done": 0, "error": 0, "error_code": 0}, {"busy": 0, "done": 1, "error": 0, "error_code": 0}
BUSY = {"busy": 1, "done": 0, "error": 0, "error_code": 0}


def failed(error):
    """Fields of `status` after an error."""
    return {"busy": 0, "done": 1, "error": 1, "error_code": error}


def checks(command, settings):
    """A length limit, for two of three commands."""
    return [Check((command != Command.REST) & (settings.length > LONGEST), Error.TOO_LONG, settings.length)]


def play(body, reset=None):
    """Simulate until ``body(ctx, shell, host, seen)`` returns; `seen` records each start and the cycles of abort and
    clear.
    """
    shell = Shell(CORE, SIGNATURE, checks)
    seen = {"starts": [], "aborts": 0, "clears": 0}

    async def watch(ctx):
        control = shell.control
        async for *_, start, command, length, abort, clear in ctx.tick().sample(
            control.start, control.command, control.settings.length, control.abort, shell.clear
        ):
            if start:
                seen["starts"].append((command, length))
            seen["aborts"] += abort
            seen["clears"] += clear

    async def run(ctx):
        ctx.set(shell.control.ready, 1)
        ctx.set(shell.control.quiet, 1)
        await body(ctx, shell, LiteHost(ctx, shell.bus, CORE.map), seen)

    simulate(shell if reset is None else ResetInserter(reset)(shell), run, background=[watch], limit=200_000)
    return seen


async def end(ctx, shell):
    """End the trainer's command."""
    ctx.set(shell.control.finished, 1)
    await ctx.tick()
    ctx.set(shell.control.finished, 0)


async def error_address(host):
    """Both words of the register."""
    return await host.read("error_address") | await host.read("error_address_high") << 32


async def settle(ctx):
    """Wait until all checks are done and a passing command has started."""
    await ctx.tick().repeat(len(CORE.settings) + 6)


@pytest.mark.parametrize("command", Command)
def test_a_command_runs_to_its_end(command):
    async def body(ctx, shell, host, seen):
        assert await host.read("signature") == SIGNATURE
        assert await host.status() == IDLE
        await host.write(length=7, command=command)
        await settle(ctx)
        assert seen["starts"] == [(command, 7)]
        assert await host.status() == BUSY
        await end(ctx, shell)
        assert await host.status() == DONE
        assert await host.read("error_address") == 0
        assert seen == {"starts": [(command, 7)], "aborts": 0, "clears": 0}

    play(body)


def test_a_command_ends_once_no_burst_is_outstanding():
    """The trainer ends with a read in flight that may still fail; bursts may begin while it runs."""

    async def body(ctx, shell, host, seen):
        control = shell.control
        assert ctx.get(control.hold)
        for error in (0, Error.BROKEN):
            await host.write(interrupt=1, interrupt_enable=1, command=Command.FILL)
            await settle(ctx)
            assert not ctx.get(control.hold)
            ctx.set(control.quiet, 0)
            await ctx.tick().repeat(2)
            await end(ctx, shell)
            await ctx.tick().repeat(100)
            assert (await host.status(), ctx.get(shell.interrupt), ctx.get(control.hold)) == (BUSY, 0, 0)
            ctx.set(control.fault.failed, bool(error))
            ctx.set(control.fault.error, error)
            ctx.set(control.quiet, 1)
            await ctx.tick().repeat(3)
            ctx.set(control.fault.failed, 0)
            await ctx.tick().repeat(DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY + 5)
            assert await host.status() == (failed(error) if error else DONE)
            assert (ctx.get(shell.interrupt), ctx.get(control.hold)) == (1, 1)

    play(body)


def test_a_command_waits_for_the_trainer():
    async def body(ctx, shell, host, seen):
        ctx.set(shell.control.ready, 0)
        await host.write(command=Command.FILL)
        await ctx.tick().repeat(40)
        assert seen["starts"] == []
        assert await host.status() == BUSY
        ctx.set(shell.control.ready, 1)
        await ctx.tick().repeat(2)
        assert seen["starts"] == [(Command.FILL, 5)]

    play(body)


@pytest.mark.parametrize(
    ("settings", "command", "error", "value"),
    [
        ({}, 0, Error.BAD_COMMAND, 0),
        ({}, 4, Error.BAD_COMMAND, 4),
        ({}, 0xFFFF_FF01, Error.BAD_COMMAND, 0xFFFF_FF01),
        ({"length": LONGEST + 1}, Command.FILL, Error.TOO_LONG, LONGEST + 1),
        ({"length": 1 << 31}, Command.DRAIN, Error.TOO_LONG, 1 << 31),
        *(({"address": 1 << bit}, Command.FILL, Error.BAD_ADDRESS, 1 << bit) for bit in range(4)),
        *(({"address_high": 1 << bit}, Command.FILL, Error.BAD_ADDRESS, 1 << 32 + bit) for bit in (8, 9, 30, 31)),
        ({"address": 0x108, "length": 77}, Command.FILL, Error.BAD_ADDRESS, 0x108),
        ({"address": 0x108, "length": 77}, Command.DRAIN, Error.TOO_LONG, 77),
        ({"address": 0x101, "length": 77}, 9, Error.BAD_COMMAND, 9),
    ],
)
def test_a_wrong_command_or_setting_is_refused(settings, command, error, value):
    async def body(ctx, shell, host, seen):
        await host.write(**settings, command=command)
        await settle(ctx)
        assert await host.status() == failed(error)
        assert await error_address(host) == value
        assert await host.read("interrupt") == 1
        assert seen == {"starts": [], "aborts": 0, "clears": 0}
        await host.write(length=1, address=0xFFFF_FFF0, address_high=0xFF, command=Command.FILL)
        await settle(ctx)
        assert seen["starts"] == [(Command.FILL, 1)]
        assert ctx.get(shell.control.settings.address) == 0xFF_FFFF_FFF0
        assert await host.status() == BUSY
        assert await error_address(host) == 0

    play(body)


def test_settings_that_a_command_does_not_use_are_not_checked():
    async def body(ctx, shell, host, seen):
        await host.write(length=1000, address=0x101, command=Command.REST)
        await settle(ctx)
        assert seen["starts"] == [(Command.REST, 1000)]

    play(body)


@pytest.mark.parametrize("outstanding", [0, 5, DRAIN_CYCLES, 100])
def test_a_fault_drains_and_resets_the_trainer(outstanding):
    async def body(ctx, shell, host, seen):
        control = shell.control
        await host.write(command=Command.DRAIN)
        await settle(ctx)
        ctx.set(control.quiet, 0)
        for port, value in (
            (control.fault.failed, 1),
            (control.fault.error, Error.BROKEN),
            (control.fault.address, 0xAB_0000_07F0),
        ):
            ctx.set(port, value)
        await ctx.tick().until(control.abort)
        ctx.set(control.fault.failed, 0)
        for _ in range(outstanding):
            await ctx.tick()
            assert (ctx.get(control.abort), seen["clears"]) == (1, 0)
        ctx.set(control.quiet, 1)
        await ctx.tick().repeat(DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY + 5)
        assert await host.status() == failed(Error.BROKEN)
        assert await error_address(host) == 0xAB_0000_07F0
        assert (seen["clears"], ctx.get(control.abort)) == (RESET_CYCLES, 0)
        assert seen["aborts"] > max(outstanding, DRAIN_CYCLES)
        # and the next command runs
        await host.write(command=Command.FILL)
        await settle(ctx)
        await end(ctx, shell)
        assert await host.status() == DONE

    play(body)


def test_a_fault_wins_over_the_end():
    async def body(ctx, shell, host, seen):
        await host.write(command=Command.FILL)
        await settle(ctx)
        ctx.set(shell.control.fault.failed, 1)
        ctx.set(shell.control.fault.error, Error.BROKEN)
        await end(ctx, shell)
        ctx.set(shell.control.fault.failed, 0)
        await ctx.tick().repeat(DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY + 6)
        assert await host.status() == failed(Error.BROKEN)

    play(body)


def test_the_interrupt_is_raised_where_it_is_enabled():
    async def body(ctx, shell, host, seen):
        for enabled in (0, 1):
            await host.write(interrupt_enable=enabled, command=Command.FILL)
            await settle(ctx)
            assert not ctx.get(shell.interrupt)
            await end(ctx, shell)
            await ctx.tick().repeat(2)
            assert ctx.get(shell.interrupt) == enabled
            assert await host.read("interrupt") == 1
            await host.write(interrupt=1)
            assert not ctx.get(shell.interrupt)
        await host.write(command=99)
        await settle(ctx)
        assert ctx.get(shell.interrupt)

    play(body)


def test_the_interrupts_registers_can_be_written_while_a_command_runs():
    async def body(ctx, shell, host, seen):
        await host.write(command=99)
        await settle(ctx)
        await host.post("command", Command.FILL)
        await host.post("interrupt", 1)
        await host.post("interrupt_enable", 1)
        await settle(ctx)
        assert await host.status() == BUSY
        assert (await host.read("interrupt"), await host.read("interrupt_enable")) == (0, 1)
        await end(ctx, shell)
        await ctx.tick().repeat(2)
        assert ctx.get(shell.interrupt)

    play(body)


def test_counters_count_the_last_command_alone():
    async def body(ctx, shell, host, seen):
        counts = shell.control.counts
        for steps in (3, 2):
            await host.write(command=Command.FILL)
            ctx.set(counts.sums, 1)  # during the check as well
            await settle(ctx)
            ctx.set(counts.sums, 0)
            before = await host.read("sums")
            for step in range(steps):
                ctx.set(counts.words, 1)
                ctx.set(counts.sums, 20 + step)
                await ctx.tick()
            ctx.set(counts.words, 0)
            ctx.set(counts.sums, 0)
            await end(ctx, shell)
            ctx.set(counts.words, 1)
            await ctx.tick().repeat(5)
            ctx.set(counts.words, 0)
            words = await host.read("words")
            assert words in (steps, steps + 1)  # the cycle of the reported end counts
            assert await host.read("sums") - before == sum(20 + step for step in range(steps))
            cycles = await host.read("cycles_low")
            assert await host.read("cycles_low") == cycles > steps + len(CORE.settings)
            assert await host.read("cycles_high") == 0

    play(body)


@pytest.mark.parametrize("distance", range(8))
def test_what_is_written_while_a_command_runs_is_ignored(distance):
    """A second command in any cycle: neither it nor a setting changes the running command."""

    async def body(ctx, shell, host, seen):
        await host.write(command=Command.FILL)
        if distance:
            await ctx.tick().repeat(distance)
        await host.write(command=Command.DRAIN, length=LONGEST + 1, address=1)
        await settle(ctx)
        assert seen["starts"] == [(Command.FILL, 5)]
        assert await host.status() == BUSY
        await end(ctx, shell)
        assert await host.status() == DONE
        assert (await host.read("length"), await host.read("address")) == (5, 0)
        await ctx.tick().repeat(20)
        assert seen["starts"] == [(Command.FILL, 5)]

    play(body)


async def write_behind(ctx, host, name, value, distances, order="both"):
    """Write a register at each distance in cycles, from the cycle after the previous write was taken."""
    cycle = 0
    for distance in distances:
        if distance > cycle:
            await ctx.tick().repeat(distance - cycle)
        cycle = distance + await host.post(name, value, order)


FARTHEST, APART = 300, 20
"""Cycles from a command to the last write after it, and between such writes."""
WRONG = {"command": Command.DRAIN, "length": LONGEST + 1, "address": 1, "address_high": 1 << 31}
"""A word for each locked register that would run another command, or make this one fail."""


@pytest.mark.parametrize("ready", [1, pytest.param(0, marks=pytest.mark.slow)], ids=["while it runs", "while it waits"])
def test_nothing_written_behind_a_command_changes_it(ready):
    """A write to each register at every distance from 0 cycles, the bus's minimum, to 300."""
    orders = list(ORDERS)

    async def body(ctx, shell, host, seen):
        for name, wrong in WRONG.items():
            for distance in range(APART):
                order = orders[distance % 3]
                seen["starts"].clear()
                ctx.set(shell.control.ready, ready)
                await host.post("command", Command.FILL, orders[distance // 3 % 3])
                await write_behind(ctx, host, name, wrong, range(distance, FARTHEST + 1, APART), order)
                ctx.set(shell.control.ready, 1)
                await ctx.tick().repeat(4)
                assert await host.status() == BUSY, (name, distance)
                await end(ctx, shell)
                # not queued
                await settle(ctx)
                assert seen["starts"] == [(Command.FILL, 5)], (name, distance)
                assert ctx.get(shell.control.command) == Command.FILL, (name, distance)
                assert await host.status() == DONE, (name, distance)
                assert (await host.read("length"), await host.read("address")) == (5, 0), (name, distance)

    play(body)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_written_right_before_a_command_counts(order):
    async def body(ctx, shell, host, seen):
        for length in (7, LONGEST, LONGEST + 1, 3):
            seen["starts"].clear()
            for name, value in {"address": 16 * length, "length": length, "command": Command.FILL}.items():
                await host.post(name, value, order)
            await settle(ctx)
            if length > LONGEST:
                assert await host.status() == failed(Error.TOO_LONG)
                assert await host.read("error_address") == length
            else:
                assert seen["starts"] == [(Command.FILL, length)]
                assert ctx.get(shell.control.settings.address) == 16 * length
                await end(ctx, shell)

    play(body)


@pytest.mark.parametrize("first", [Command.FILL, 0, 9], ids=["wrong setting", "no command", "unknown command"])
def test_what_is_written_behind_a_refused_command_counts_after_it(first):
    """Writes during the check are ignored, later ones take effect."""
    refused = {Command.FILL: (Error.TOO_LONG, 77)}.get(first, (Error.BAD_COMMAND, first))
    soon = len(CORE.settings) + 7

    async def body(ctx, shell, host, seen):
        counted = {"command": [], "length": []}
        for name, distance in [(name, distance) for name in counted for distance in range(APART)]:
            seen["starts"].clear()
            await host.write(length=77)
            await host.post("command", first)
            await write_behind(ctx, host, name, {"command": Command.REST, "length": 3}[name], [distance])
            await settle(ctx)
            ran = seen["starts"] == [(Command.REST, 77)]
            assert await host.status() == (BUSY if ran else failed(refused[0])), (name, distance)
            assert await host.read("error_address") == (0 if ran else refused[1]), (name, distance)
            if ran:
                await end(ctx, shell)
            else:
                assert seen["starts"] == []
            length = await host.read("length")
            assert length == 77 or (name, length) == ("length", 3)
            counted[name].append(ran if name == "command" else length == 3)
        for found in counted.values():
            assert found == sorted(found)
            assert not found[0]
            assert all(found[soon:])

    play(body)


def test_a_setting_written_long_after_a_refused_command_counts():
    async def body(ctx, shell, host, seen):
        for first in range(APART, 2 * APART):
            await host.write(length=77)
            await host.post("command", Command.FILL)
            cycle = 0
            for distance in range(first, FARTHEST + 1, APART):
                await ctx.tick().repeat(distance - cycle)
                cycle = distance + await host.post("length", distance) + 2
                await ctx.tick().repeat(2)
                assert ctx.get(shell.control.settings.length) == distance
            assert await host.status() == failed(Error.TOO_LONG)
            assert (await host.read("error_address"), seen["starts"]) == (77, [])

    play(body)


@pytest.mark.parametrize("after", [1, 4, 12])
def test_a_reset_ends_a_command(after):
    reset = Signal()

    async def body(ctx, shell, host, seen):
        await host.write(length=8, interrupt_enable=1, command=Command.FILL)
        await ctx.tick().repeat(after)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        seen["starts"].clear()
        assert await host.status() == IDLE
        assert (await host.read("length"), await host.read("interrupt_enable")) == (5, 0)
        await ctx.tick().repeat(30)
        assert seen["starts"] == []
        await host.write(command=Command.DRAIN)
        await settle(ctx)
        await end(ctx, shell)
        assert seen["starts"] == [(Command.DRAIN, 5)]
        assert await host.status() == DONE

    play(body, reset)
