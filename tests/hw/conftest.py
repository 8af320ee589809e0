"""Bench for small components in Amaranth's simulator: streams driven and read with random stalls, rules checked."""

import numpy as np
import pytest
from amaranth.lib import data
from amaranth.sim import Simulator

LIMIT = 20_000
"""Cycles after which a bench fails."""


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
