# amaranth: UnusedElaboratable=no
"""The shell with a trainer that the bench plays: commands, checks, faults, abort, interrupt, counters, reset."""

from enum import IntEnum

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from fabtune.golden.cores.shell import CoreRegisters, Counter, Setting
from fabtune.hw.cores.shell import DRAIN_CYCLES, Check, Shell

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
    MISALIGNED = 3
    BROKEN = 11


CORE = CoreRegisters(
    "toy",
    Command,
    Error,
    settings=(Setting("length", "words", reset=5), Setting("address", "of the words")),
    counters=(Counter("words", "words filled"), Counter("sums", "sum of steps", width=6)),
)
IDLE, DONE = {"busy": 0, "done": 0, "error": 0, "error_code": 0}, {"busy": 0, "done": 1, "error": 0, "error_code": 0}
BUSY = {"busy": 1, "done": 0, "error": 0, "error_code": 0}


def failed(error):
    """Fields of `status` after an error."""
    return {"busy": 0, "done": 1, "error": 1, "error_code": error}


def checks(command, settings):
    """A length that is too long, for two of three commands; then an odd address."""
    return [
        Check((command != Command.REST) & (settings.length > LONGEST), Error.TOO_LONG, settings.length),
        Check((command == Command.FILL) & settings.address[0], Error.MISALIGNED, settings.address),
    ]


@pytest.fixture(name="bench")
def _bench(lite_host):
    """Run ``body(ctx, shell, host, seen)``; `seen` has each start, and the cycles of abort and clear."""

    def bench(body, reset=None):
        shell = Shell(CORE, SIGNATURE, checks)
        dut = shell if reset is None else ResetInserter(reset)(shell)
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
            await body(ctx, shell, lite_host(ctx, shell.bus, CORE.map), seen)

        simulator = Simulator(dut)
        simulator.add_clock(1e-8)
        simulator.add_process(watch)
        simulator.add_testbench(run)
        simulator.run()
        return seen

    return bench


async def end(ctx, shell):
    """The trainer ends the command."""
    ctx.set(shell.control.finished, 1)
    await ctx.tick()
    ctx.set(shell.control.finished, 0)


async def settle(ctx):
    """All checks have been made, and a command that passes has been started."""
    await ctx.tick().repeat(len(CORE.settings) + 6)


@pytest.mark.parametrize("command", Command)
def test_a_command_runs_to_its_end(bench, command):
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

    bench(body)


def test_a_command_waits_for_the_trainer(bench):
    async def body(ctx, shell, host, seen):
        ctx.set(shell.control.ready, 0)
        await host.write(command=Command.FILL)
        await ctx.tick().repeat(40)
        assert seen["starts"] == []
        assert await host.status() == BUSY
        ctx.set(shell.control.ready, 1)
        await ctx.tick().repeat(2)
        assert seen["starts"] == [(Command.FILL, 5)]

    bench(body)


@pytest.mark.parametrize(
    ("settings", "command", "error", "value"),
    [
        ({}, 0, Error.BAD_COMMAND, 0),
        ({}, 4, Error.BAD_COMMAND, 4),
        ({}, 0xFFFF_FF01, Error.BAD_COMMAND, 0xFFFF_FF01),
        ({"length": LONGEST + 1}, Command.FILL, Error.TOO_LONG, LONGEST + 1),
        ({"length": 1 << 31}, Command.DRAIN, Error.TOO_LONG, 1 << 31),
        ({"address": 0x101}, Command.FILL, Error.MISALIGNED, 0x101),
        ({"address": 0x101, "length": 77}, Command.FILL, Error.TOO_LONG, 77),
        ({"address": 0x101, "length": 77}, 9, Error.BAD_COMMAND, 9),
    ],
)
def test_a_wrong_command_or_setting_is_refused(bench, settings, command, error, value):
    async def body(ctx, shell, host, seen):
        await host.write(**settings, command=command)
        await settle(ctx)
        assert await host.status() == failed(error)
        assert await host.read("error_address") == value
        assert await host.read("interrupt") == 1
        assert seen == {"starts": [], "aborts": 0, "clears": 0}
        await host.write(length=1, address=0, command=Command.FILL)
        await settle(ctx)
        assert seen["starts"] == [(Command.FILL, 1)]
        assert await host.status() == BUSY
        assert await host.read("error_address") == 0

    bench(body)


def test_settings_that_a_command_does_not_use_are_not_checked(bench):
    async def body(ctx, shell, host, seen):
        await host.write(length=1000, address=0x101, command=Command.REST)
        await settle(ctx)
        assert seen["starts"] == [(Command.REST, 1000)]

    bench(body)


@pytest.mark.parametrize("outstanding", [0, 5, DRAIN_CYCLES, 100])
def test_a_fault_drains_and_resets_the_trainer(bench, outstanding):
    async def body(ctx, shell, host, seen):
        control = shell.control
        await host.write(command=Command.DRAIN)
        await settle(ctx)
        ctx.set(control.quiet, 0)
        for port, value in (
            (control.fault.failed, 1),
            (control.fault.error, Error.BROKEN),
            (control.fault.address, 0x7F0),
        ):
            ctx.set(port, value)
        await ctx.tick().until(control.abort)
        ctx.set(control.fault.failed, 0)
        for _ in range(outstanding):
            await ctx.tick()
            assert (ctx.get(control.abort), seen["clears"]) == (1, 0)
        ctx.set(control.quiet, 1)
        await ctx.tick().repeat(DRAIN_CYCLES + 4)
        assert await host.status() == failed(Error.BROKEN)
        assert await host.read("error_address") == 0x7F0
        assert (seen["clears"], ctx.get(control.abort)) == (1, 0)
        assert seen["aborts"] > max(outstanding, DRAIN_CYCLES)
        # and the next command runs
        await host.write(command=Command.FILL)
        await settle(ctx)
        await end(ctx, shell)
        assert await host.status() == DONE

    bench(body)


def test_a_fault_wins_over_the_end(bench):
    async def body(ctx, shell, host, seen):
        await host.write(command=Command.FILL)
        await settle(ctx)
        ctx.set(shell.control.fault.failed, 1)
        ctx.set(shell.control.fault.error, Error.BROKEN)
        await end(ctx, shell)
        ctx.set(shell.control.fault.failed, 0)
        await ctx.tick().repeat(DRAIN_CYCLES + 5)
        assert await host.status() == failed(Error.BROKEN)

    bench(body)


def test_the_interrupt_is_raised_where_it_is_enabled(bench):
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

    bench(body)


def test_counters_count_the_last_command_alone(bench):
    async def body(ctx, shell, host, seen):
        counts = shell.control.counts
        for steps in (3, 2):
            await host.write(command=Command.FILL)
            ctx.set(counts.sums, 1)  # while it is checked, too
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
            assert words in (steps, steps + 1)  # the cycle in which the command's end is reported counts
            assert await host.read("sums") - before == sum(20 + step for step in range(steps))
            cycles = await host.read("cycles_low")
            assert await host.read("cycles_low") == cycles > steps + len(CORE.settings)
            assert await host.read("cycles_high") == 0

    bench(body)


@pytest.mark.parametrize("distance", range(8))
def test_what_is_written_while_a_command_runs_is_ignored(bench, distance):
    """A command right behind another, in any cycle: neither it nor a setting changes the one that runs."""

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

    bench(body)


@pytest.mark.parametrize("after", [1, 4, 12])
def test_a_reset_ends_a_command(bench, after):
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

    bench(body, reset)
