# amaranth: UnusedElaboratable=no
"""Soft reset of the shell at every kind of moment, with a trainer played by the bench."""

import pytest

from fabtune.hw.cores.shell import DRAIN_CYCLES, RESET_CYCLES, RESET_DELAY

from .test_shell import BUSY, CORE, DONE, IDLE, LONGEST, Command, Error, end, play, settle

AFTER = {item.name: item.reset for item in CORE.map if item.name != "signature"}
"""All registers after a reset."""
RESET = DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY + 24
"""Cycles of a reset with nothing outstanding, with a margin."""


async def registers(host):
    """All registers but the constant."""
    return {name: await host.read(name) for name in AFTER}


async def changed(ctx, shell, host):
    """Change every register from its reset value: a command ended with a pending error, and settings."""
    await host.write(length=7, address=0x1230, address_high=1, interrupt_enable=1, command=Command.FILL)
    ctx.set(shell.control.counts.words, 1)
    ctx.set(shell.control.counts.sums, 3)
    await settle(ctx)
    ctx.set(shell.control.fault.failed, 1)
    ctx.set(shell.control.fault.error, Error.BROKEN)
    ctx.set(shell.control.fault.address, 0xAB_0000_07F0)
    await ctx.tick().until(shell.control.abort)
    ctx.set(shell.control.fault.failed, 0)
    await ctx.tick().repeat(RESET)


async def complete(ctx, shell, host, seen):
    """After a reset the state is initial, and a command runs."""
    assert await registers(host) == AFTER
    assert not ctx.get(shell.interrupt)
    assert not ctx.get(shell.control.abort)
    seen["starts"].clear()
    await ctx.tick().repeat(RESET)
    assert seen["starts"] == []
    await host.write(command=Command.DRAIN)
    await settle(ctx)
    await end(ctx, shell)
    assert seen["starts"] == [(Command.DRAIN, 5)]
    assert await host.status() == DONE
    assert await host.read("interrupt") == 1


def test_every_register_has_its_reset_value():
    async def body(ctx, shell, host, seen):
        await changed(ctx, shell, host)
        found = await registers(host)
        # write-only registers read as 0, and no command is long enough for the upper word to count
        assert {name for name in AFTER if found[name] == AFTER[name]} == {"command", "cycles_high", "soft_reset"}
        assert ctx.get(shell.interrupt)
        clears = seen["clears"]
        await host.write(soft_reset=1)
        assert await host.read("soft_reset") == 1
        assert await host.status() | {"error": 0, "error_code": 0} == BUSY
        await ctx.tick().repeat(RESET)
        ctx.set(shell.control.counts.words, 0)
        ctx.set(shell.control.counts.sums, 0)
        assert seen["clears"] > clears
        await complete(ctx, shell, host, seen)

    play(body)


def test_nothing_but_a_one_asks_for_it():
    async def body(ctx, shell, host, seen):
        await host.write(length=7, soft_reset=0xFFFF_FFFE)
        await ctx.tick().repeat(RESET)
        assert await host.status() == IDLE
        assert (seen["clears"], seen["aborts"], await host.read("length")) == (0, 0, 7)

    play(body)


@pytest.mark.parametrize("first", [Command.FILL, 9], ids=["command", "unknown command"])
@pytest.mark.parametrize("ready", [1, 0], ids=["while it runs", "while it waits"])
def test_at_any_distance_behind_a_command(first, ready):
    """From the bus's minimum, through checks and start, to long after."""

    async def body(ctx, shell, host, seen):
        for distance in [*range(16), 40, 90]:
            ctx.set(shell.control.ready, ready)
            await host.write(length=6, interrupt_enable=1)
            await host.post("command", first)
            if distance:
                await ctx.tick().repeat(distance)
            await host.post("soft_reset", 1)
            await ctx.tick().repeat(RESET)
            ctx.set(shell.control.ready, 1)
            await complete(ctx, shell, host, seen)

    play(body)


@pytest.mark.parametrize("distance", range(12))
def test_around_the_end_of_a_command(distance):
    """The command ends close to the cycle of the reset request."""

    async def body(ctx, shell, host, seen):
        await host.write(length=6, interrupt_enable=1, command=Command.FILL)
        await settle(ctx)
        ctx.set(shell.bus.b.ready, 1)
        ctx.set(shell.bus.aw.payload.address, CORE.map["soft_reset"].offset)
        ctx.set(shell.bus.w.payload, {"data": 1, "strobe": 0xF})
        for cycle in range(16):
            for channel in (shell.bus.aw, shell.bus.w):
                ctx.set(channel.valid, cycle == 5)
            ctx.set(shell.control.finished, cycle == distance)
            await ctx.tick()
        await ctx.tick().repeat(RESET)
        await complete(ctx, shell, host, seen)

    play(body)


@pytest.mark.parametrize("distance", [0, 3, DRAIN_CYCLES - 1, *range(DRAIN_CYCLES, DRAIN_CYCLES + 12)])
def test_while_a_fault_drains(distance):
    async def body(ctx, shell, host, seen):
        await host.write(length=6, interrupt_enable=1, command=Command.FILL)
        await settle(ctx)
        ctx.set(shell.control.fault.failed, 1)
        ctx.set(shell.control.fault.error, Error.BROKEN)
        await ctx.tick().until(shell.control.abort)
        ctx.set(shell.control.fault.failed, 0)
        if distance:
            await ctx.tick().repeat(distance)
        await host.post("soft_reset", 1)
        await ctx.tick().repeat(2 * RESET)
        await complete(ctx, shell, host, seen)

    play(body)


def test_the_bus_is_waited_for_and_registers_answer():
    """While a burst is outstanding the reset is pending, reads are answered, and writes are lost."""

    async def body(ctx, shell, host, seen):
        await host.write(length=6, command=Command.FILL)
        await settle(ctx)
        ctx.set(shell.control.quiet, 0)
        await host.write(soft_reset=1)
        for turn in range(60):
            assert await host.read("soft_reset") == 1
            assert (await host.status())["busy"] == 1
            # another reset request, a command and settings
            await host.write(soft_reset=turn % 2, command=Command.REST, length=turn, interrupt_enable=1)
            assert ctx.get(shell.control.abort)
            assert (seen["clears"], await host.read("length")) == (0, 6)
        ctx.set(shell.control.quiet, 1)
        await ctx.tick().repeat(RESET)
        assert seen["starts"] == [(Command.FILL, 6)]
        await complete(ctx, shell, host, seen)

    play(body)


@pytest.mark.parametrize("name", ["command", "length", "interrupt_enable", "soft_reset"])
def test_a_write_near_its_end_counts_or_is_lost(name):
    """One write at each distance after the reset: lost up to some distance, effective from there on."""

    async def body(ctx, shell, host, seen):
        counted = []
        for distance in range(RESET):
            seen["starts"].clear()
            await host.post("soft_reset", 1)
            if distance:
                await ctx.tick().repeat(distance)
            await host.post(name, {"command": Command.REST, "soft_reset": 1}.get(name, LONGEST))
            clears = seen["clears"]
            await ctx.tick().repeat(RESET)
            found = await registers(host)
            ran = seen["starts"] == [(Command.REST, 5)]
            counts = {"command": ran, "soft_reset": seen["clears"] > clears}.get(name, found.get(name) == LONGEST)
            if name != "soft_reset":
                counted.append(counts)
                own = {"status": found["status"], "cycles_low": found["cycles_low"]} if ran else {name: found[name]}
                assert found == AFTER | own
            if ran:
                await end(ctx, shell)
            await ctx.tick().repeat(8)
        assert counted == sorted(counted)
        assert name == "soft_reset" or (not counted[0] and counted[-1])

    play(body)
