"""Bench for small components in Amaranth's simulator: streams driven and read with random stalls, rules checked."""

import numpy as np
import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

LIMIT = 20_000
"""Cycles after which a bench fails."""
BEAT = 16
"""Bytes of a beat."""


def plain(value):
    """A sampled payload as an integer, or as a dictionary or list of its fields."""
    if not isinstance(value, data.Const):
        return value
    layout = value.shape()
    if isinstance(layout, data.ArrayLayout):
        return [plain(value[at]) for at in range(layout.length)]
    return {name: plain(value[name]) for name, _ in layout}


def run(dut, *benches):
    """Simulate a design with a clock until every bench has returned."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


class Monitor:
    """Check the rule of streams at each clock edge: valid and payload are held until ready."""

    def __init__(self, name):
        self.name, self.offered = name, None

    def transfer(self, valid, ready, payload):
        """Whether the payload is transferred."""
        if self.offered is not None:
            assert valid, f"{self.name}: valid was retracted"
            assert payload == self.offered, f"{self.name}: the payload changed before ready"
        self.offered = payload if valid and not ready else None
        return bool(valid and ready)


def drive(dut, sources, sinks, stall=0.0, seed=1, wires=None, after=None, always_ready=()):
    """Give words to input streams and take words from output streams, all at once.

    Parameters
    ----------
    dut : Component
    sources : dict of str to list
        For each input stream its payloads.
    sinks : dict of str to int
        For each output stream the number of payloads to take; more of them are an error.
    stall : float
        Probability, in each cycle, that a source offers nothing or a sink is not ready.
    wires : dict of str to int, optional
        Values of other inputs.
    after : dict of str to (str, int), optional
        For a source the stream, and the number of its transfers, that it waits for before its first word.
    always_ready : sequence of str
        Sinks that do not stall.

    Returns
    -------
    dict of str to list of (int, payload)
        For each stream its transfers: the cycle and the payload.
    """
    seen = {name: [] for name in (*sources, *sinks)}
    wanted = {name: len(words) for name, words in sources.items()} | sinks

    def finished():
        return all(len(seen[name]) >= count for name, count in wanted.items())

    def source(number, name, words):
        rng, port = np.random.default_rng([seed, number]), getattr(dut, name)

        async def bench(ctx):
            left, valid = list(words), False
            for cycle in range(LIMIT):
                stream, count = (after or {}).get(name, (name, 0))
                if left and not valid and len(seen[stream]) >= count and rng.random() >= stall:
                    valid = True
                    ctx.set(port.payload, left[0])
                ctx.set(port.valid, valid)
                ready = (await ctx.tick().sample(port.ready))[2]
                if valid and ready:
                    seen[name].append((cycle, left.pop(0)))
                    valid = False
                if finished():
                    return
            raise AssertionError(f"{name}: {len(left)} of {len(words)} words not taken after {LIMIT} cycles")

        return bench

    def sink(number, name, count):
        rng, port, monitor = np.random.default_rng([seed, 1000 + number]), getattr(dut, name), Monitor(name)

        async def bench(ctx):
            for cycle in range(LIMIT):
                ready = rng.random() >= stall or name in always_ready
                ctx.set(port.ready, ready)
                valid, payload = (await ctx.tick().sample(port.valid, port.payload))[2:]
                if monitor.transfer(valid, ready, plain(payload)):
                    seen[name].append((cycle, plain(payload)))
                    assert len(seen[name]) <= count, f"{name}: more than {count} words"
                if finished():
                    return
            raise AssertionError(f"{name}: {len(seen[name])} of {count} words after {LIMIT} cycles")

        return bench

    async def setup(ctx):
        for name, value in (wires or {}).items():
            ctx.set(getattr(dut, name), value)

    benches = [setup]
    benches += [source(number, *item) for number, item in enumerate(sources.items())]
    benches += [sink(number, *item) for number, item in enumerate(sinks.items())]
    run(dut, *benches)
    return seen


@pytest.fixture(name="simulate")
def _simulate():
    """Simulate a design until every bench has returned: see `run`."""
    return run


@pytest.fixture(name="drive")
def _drive():
    """Drive and read the streams of a component: see `drive`."""
    return drive


@pytest.fixture(name="monitor")
def _monitor():
    """Class of a check of one stream: see `Monitor`."""
    return Monitor


class Memory:
    """Beats by byte address, behind read ports, write ports and streams of commands.

    Parameters
    ----------
    seed : int
        Seed of the stalls.
    stall : float
        Probability, in each cycle and on each stream, that nothing moves.

    Attributes
    ----------
    beats : dict of int to int
        Contents, by byte address.
    reads, writes : list of (address, beats)
        Commands in the order in which they were accepted.
    """

    def __init__(self, stall=0.0, seed=1):
        self.beats, self.reads, self.writes = {}, [], []
        self.stall, self.rng = stall, np.random.default_rng(seed)

    def load(self, address, image):
        """Put the bytes of an image at an address."""
        data = np.asarray(image, np.uint8).tobytes()
        for at in range(0, len(data), BEAT):
            self.beats[address + at] = int.from_bytes(data[at : at + BEAT], "little")

    def willing(self):
        """Draw if something moves in this cycle."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, command, beats=None):
        """Serve a stream of read commands; without a stream of beats the commands are only listed."""

        async def bench(ctx):
            queue, valid = [], False
            while True:
                ready = self.willing()
                ctx.set(command.ready, ready)
                if beats is not None:
                    if queue and not valid and self.willing():
                        valid = True
                        ctx.set(beats.payload, self.beats.get(queue[0], 0))
                    ctx.set(beats.valid, valid)
                    *_, asked, payload, taken = await ctx.tick().sample(command.valid, command.payload, beats.ready)
                else:
                    *_, asked, payload = await ctx.tick().sample(command.valid, command.payload)
                    taken = 0
                if valid and taken:
                    queue.pop(0)
                    valid = False
                if asked and ready:
                    self.reads.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench

    def writer(self, port):
        """Serve a write port: the beats of a command are taken once the command was."""

        async def bench(ctx):
            queue = []
            while True:
                command_ready, beat_ready = not queue and self.willing(), bool(queue) and self.willing()
                ctx.set(port.command.ready, command_ready)
                ctx.set(port.beats.ready, beat_ready)
                *_, asked, payload, valid, beat = await ctx.tick().sample(
                    port.command.valid, port.command.payload, port.beats.valid, port.beats.payload
                )
                if valid and beat_ready:
                    self.beats[queue.pop(0)] = beat
                if asked and command_ready:
                    self.writes.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench


@pytest.fixture(name="memory")
def _memory():
    """Make a memory: see `Memory`."""
    return Memory


@pytest.fixture(name="play")
def _play():
    """Simulate a design with benches in the background until ``body(ctx)`` returns, at most `LIMIT` cycles."""

    def play(dut, body, *background):
        simulator = Simulator(dut)
        simulator.add_clock(1e-8)
        over = False

        async def main(ctx):
            nonlocal over
            await body(ctx)
            over = True

        async def limit(ctx):
            for _ in range(LIMIT):
                await ctx.tick()
            assert over, f"not over after {LIMIT} cycles"

        simulator.add_testbench(main)
        simulator.add_testbench(limit, background=True)
        for bench in background:
            simulator.add_testbench(bench, background=True)
        simulator.run()

    return play
