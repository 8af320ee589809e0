"""Simulation of a component in Amaranth's simulator, and the values of its ports."""

import numpy as np
from amaranth.lib import data
from amaranth.sim import Simulator

LIMIT = 20_000
"""Cycles after which a bench fails."""
PERIOD = 1e-8
"""Seconds of a cycle; no result depends on the period."""
BEAT = 16
"""Bytes of a beat."""


def simulate(dut, *benches, background=(), limit=LIMIT):
    """Simulate a design until every bench of ``benches`` has returned, at most ``limit`` cycles.

    ``background`` benches need not return, and run first in a cycle. A design with a clock domain gets a clock.
    """
    simulator = Simulator(dut)
    simulator.add_clock(PERIOD, if_exists=True)

    async def end(ctx):
        await ctx.delay(limit * PERIOD)
        raise AssertionError(f"not over after {limit} cycles")

    for bench in (*background, end):
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


def plain(value):
    """A sampled value as an integer, or as a dictionary or list of its fields."""
    if not isinstance(value, data.Const):
        return value
    layout = value.shape()
    if isinstance(layout, data.ArrayLayout):
        return [plain(value[at]) for at in range(layout.length)]
    return {name: plain(value[name]) for name, _ in layout}


def settable(value):
    """A value for the simulator: NumPy integers become Python integers."""
    if isinstance(value, dict):
        return {name: settable(item) for name, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def port_of(dut, path):
    """The port or interface of a component at a path such as ``write.command``."""
    for name in path.split("."):
        dut = getattr(dut, name)
    return dut


def beside(path, name):
    """Path of a port in the same interface as another port."""
    return ".".join((*path.split(".")[:-1], name))


def near(dut, path, name):
    """The named port in the same interface as another port, or else of the component."""
    interface = port_of(dut, path.rpartition(".")[0]) if "." in path else dut
    return getattr(interface, name) if hasattr(interface, name) else port_of(dut, name)


def beats_of(image):
    """Beats of an image of bytes."""
    given = np.ascontiguousarray(image).tobytes()
    return [int.from_bytes(given[at : at + BEAT], "little") for at in range(0, len(given), BEAT)]


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
