"""Bench for AXI managers: a memory with latency, stalls and bad responses, and protocol checks."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ..simulation import LIMIT, Monitor, simulate

BEAT, PAGE = 16, 4096


def content(address):
    """Initial memory content: a distinct number per beat."""
    return address // BEAT * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


@dataclass
class Run:
    """Stimulus of a manager, and observations."""

    commands: list[tuple[int, int]]
    stall: float = 0.0
    latency: int = 3
    bad: dict[int, int] = field(default_factory=dict)
    """Response by burst address."""
    abort_at: int = -1
    cycles: int = 0
    blocked: bool = False
    """True if data is never ready, neither `o` nor W."""
    blocked_until: int = 0
    """First cycle in which data may be ready."""
    commands_from: int = 0
    """First cycle with a command."""
    seed: int = 1

    bursts: list[tuple[int, int]] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    beats: list[tuple[int, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    written: dict[int, int] = field(default_factory=dict)
    error: int = 0
    error_address: int = 0
    answered: int = 0
    left: tuple[int, int] = (0, 0)
    """Commands and beats not accepted."""

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.total = sum(beats for _, beats in self.commands)

    def chance(self):
        """True if this cycle has no stall."""
        return self.rng.random() >= self.stall

    def takes(self, cycle):
        """True if data may be ready in this cycle."""
        return not self.blocked and cycle >= self.blocked_until

    def burst(self, cycle, address, length):
        """Record a burst and check AXI rules."""
        size = (length + 1) * BEAT
        assert address % BEAT == 0
        assert address // PAGE == (address + size - 1) // PAGE, "crosses 4 KiB"
        self.bursts.append((address, length + 1))
        self.issued.append(cycle)

    def expected(self):
        """Address of each beat of all commands, and its last flag."""
        return [(at + BEAT * j, j == beats - 1) for at, beats in self.commands for j in range(beats)]

    def wanted(self):
        """Content of each beat to read, and its last flag."""
        return [(content(address), last) for address, last in self.expected()]

    def image(self):
        """Memory content after the commands, by address."""
        return {address: content(address) for address, _ in self.expected()}

    def addresses(self):
        """Beat addresses of all bursts, in order."""
        return [at + BEAT * j for at, beats in self.bursts for j in range(beats)]


def _read(dut, run):
    """Run an `AxiRead` until all beats have arrived, or for `run.cycles`."""

    async def bench(ctx):
        bus, commands, arriving = dut.bus, deque(run.commands), deque()
        ar, o = Monitor("ar"), Monitor("o")
        command_valid = r_valid = stopped = False
        for cycle in range(run.cycles or LIMIT):
            if not command_valid and commands and cycle >= run.commands_from and run.chance():
                command_valid = True
                ctx.set(dut.command.payload, dict(zip(("address", "beats"), commands[0], strict=True)))
            ctx.set(dut.command.valid, command_valid)
            ctx.set(bus.ar.ready, run.chance())
            ctx.set(dut.o.ready, run.chance() and run.takes(cycle))
            ctx.set(dut.stop, cycle == run.abort_at)
            if not r_valid and arriving and arriving[0][0] <= cycle and run.chance():
                r_valid = True
                _, address, response, last = arriving[0]
                ctx.set(bus.r.payload, {"data": content(address), "response": response, "last": last})
            ctx.set(bus.r.valid, r_valid)
            sample = await ctx.tick().sample(
                *(dut.command.ready, bus.ar.valid, bus.ar.ready, bus.ar.payload, bus.r.ready),
                *(dut.o.valid, dut.o.ready, dut.o.payload, dut.idle, dut.error, dut.error_address),
            )
            taken, ar_valid, ar_ready, burst, r_ready, o_valid, o_ready, beat, idle, error, where = sample[2:]
            assert r_ready
            stopped = stopped or bool(error) or 0 <= run.abort_at < cycle
            run.idle.append(idle)
            run.error, run.error_address = error, where
            if command_valid and taken:
                commands.popleft()
                command_valid = False
            if ar.transfer(ar_valid, ar_ready, (burst.address, burst.length)):
                run.burst(cycle, burst.address, burst.length)
                for j in range(burst.length + 1):
                    response = run.bad.get(burst.address, 0)
                    arriving.append((cycle + run.latency, burst.address + BEAT * j, response, int(j == burst.length)))
            if r_valid:
                r_valid = False
                run.answered += arriving.popleft()[3]
            if stopped:
                assert not o_valid
            elif o.transfer(o_valid, o_ready, (beat.data, beat.last)):
                run.beats.append((beat.data, beat.last))
                run.times.append(cycle)
                if len(run.beats) == run.total and not run.cycles:
                    return
        assert run.cycles, f"{len(run.beats)} of {run.total} beats after {LIMIT} cycles"

    simulate(dut, bench)
    return run


def _write(dut, run, starve):
    """Run an `AxiWrite` with ``content(address)`` until idle with everything written, or for `run.cycles`."""

    async def bench(ctx):
        bus, commands, answers = dut.bus, deque(run.commands), deque()
        data = deque(content(address) for address, _ in run.expected())
        aw, w = Monitor("aw"), Monitor("w")
        command_valid = i_valid = b_valid = False
        announced, received, bursts_written, inside = deque(), deque(), 0, False
        for cycle in range(run.cycles or LIMIT):
            if not command_valid and commands and cycle >= run.commands_from and run.chance():
                command_valid = True
                ctx.set(dut.command.payload, dict(zip(("address", "beats"), commands[0], strict=True)))
            if not i_valid and data and run.chance() and run.rng.random() >= starve:
                i_valid = True
                ctx.set(dut.i.payload.data, data[0])
            if not b_valid and answers and answers[0][0] <= cycle and run.chance():
                b_valid = True
                ctx.set(bus.b.payload.response, answers[0][1])
            ctx.set(dut.command.valid, command_valid)
            ctx.set(dut.i.valid, i_valid)
            ctx.set(bus.b.valid, b_valid)
            ctx.set(bus.aw.ready, run.chance())
            ctx.set(bus.w.ready, run.chance() and run.takes(cycle))
            ctx.set(dut.stop, cycle == run.abort_at)
            sample = await ctx.tick().sample(
                *(dut.command.ready, dut.i.ready, bus.aw.valid, bus.aw.ready, bus.aw.payload),
                *(bus.w.valid, bus.w.ready, bus.w.payload, bus.b.ready, dut.idle, dut.error, dut.error_address),
            )
            taken, i_ready, aw_valid, aw_ready, burst, w_valid, w_ready, beat, b_ready, idle, error, where = sample[2:]
            assert b_ready
            run.idle.append(idle)
            run.error, run.error_address = error, where
            if command_valid and taken:
                commands.popleft()
                command_valid = False
            if i_valid and i_ready:
                data.popleft()
                i_valid = False
            if b_valid:
                answers.popleft()
                run.answered += 1
                b_valid = False
            if aw.transfer(aw_valid, aw_ready, (burst.address, burst.length)):
                run.burst(cycle, burst.address, burst.length)
                announced.append((burst.address, burst.length + 1))
            assert w_valid or not inside, "stalls within a burst"
            if w.transfer(w_valid, w_ready, (beat.data, beat.strobe, beat.last)):
                assert beat.strobe == 0xFFFF
                received.append(beat.data)
                run.times.append(cycle)
                inside = not beat.last
                bursts_written += beat.last
                run.beats.append((beat.data, beat.last))
            while announced and len(received) >= announced[0][1] and bursts_written:
                address, beats = announced.popleft()
                for j in range(beats):
                    run.written[address + BEAT * j] = received.popleft()
                bursts_written -= 1
                answers.append((cycle + run.latency, run.bad.get(address, 0)))
            if idle and not run.cycles and not commands and not command_valid and not data and not i_valid:
                assert not announced
                assert not received
                assert run.answered == len(run.bursts)
                return
        run.left = len(commands), len(data)
        assert run.cycles, f"{len(run.beats)} of {run.total} beats after {LIMIT} cycles"

    simulate(dut, bench)
    return run


def read(dut, *commands, **options):
    """Run commands on an `AxiRead`: ``read(dut, commands, stall, latency=...)``; see `Run` for the options."""
    return _read(dut, Run(*commands, **options))


def write(dut, *commands, starve=0.0, **options):
    """Run commands and beats on an `AxiWrite`; `starve` is the probability of a cycle without a beat."""
    return _write(dut, Run(*commands, **options), starve)
