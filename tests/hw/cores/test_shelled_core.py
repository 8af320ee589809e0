# amaranth: UnusedElaboratable=no
"""The resets of a core around a trainer that counts, and the loads of the reset registers of both cores."""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from fabtune.golden.cores.shell import RESET_LATENCY
from fabtune.hw.cores.shell import DRAIN_CYCLES, RESET_CYCLES, RESET_DELAY, Control
from fabtune.hw.cores.shelled_core import ShelledCore
from fabtune.hw.primitives.reset_tree import LOADS
from fabtune.hw.verilog import component
from fabtune.sim.formal.inside import parts_of

from ...small_cores import OPTIONS, instantft, zotrain
from ..lite import LiteHost
from ..simulation import simulate
from .test_shell import CORE, SIGNATURE, Command, checks


class Trainer(wiring.Component):
    """A trainer that counts cycles since its reset."""

    def __init__(self):
        self.count = Signal(16)
        super().__init__({"control": In(Control(CORE))})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + 1)
        m.d.comb += [self.control.ready.eq(1), self.control.quiet.eq(1)]
        return m


class Core(ShelledCore):
    """The core around the trainer."""

    def __init__(self):
        fields = {"registers": CORE, "signature": SIGNATURE, "memory_ports": 0, "address": 40, "monitor": False}
        spec = SimpleNamespace(**fields, image_beats={}, checks=checks, products=lambda settings: {})
        self.inside = Trainer()
        super().__init__(spec)

    def trainer(self):
        return self.inside


@pytest.mark.parametrize("cycles", [1, 2, RESET_LATENCY + 1, 16])
def test_an_access_waits_until_the_reset_is_over_and_then_counts(cycles):
    core = Core()

    async def body(ctx):
        host = LiteHost(ctx, core.control, CORE.map)
        await ctx.tick().repeat(8)
        await host.write(length=7, interrupt_enable=1, command=Command.FILL)
        await ctx.tick().repeat(20)
        ctx.set(core.reset, 1)
        await ctx.tick().repeat(cycles)
        ctx.set(core.reset, 0)
        # offered in the first cycle allowed to a manager
        assert await host.post("length", 4) == RESET_LATENCY + 1
        assert ctx.get(core.inside.count) == 1
        await ctx.tick().repeat(4)
        assert await host.read("length") == 4
        assert (await host.read("interrupt_enable"), await host.read("status")) == (0, 0)

    simulate(core, body)


def test_answers_are_not_valid_in_a_reset():
    core = Core()

    async def body(ctx):
        bus = core.control
        await ctx.tick().repeat(8)
        for channel in (bus.aw, bus.w, bus.ar):
            ctx.set(channel.valid, 1)
        await ctx.tick()
        for channel in (bus.aw, bus.w, bus.ar):
            ctx.set(channel.valid, 0)
        await ctx.tick().repeat(4)
        assert ctx.get(bus.b.valid) == ctx.get(bus.r.valid) == 1
        ctx.set(core.reset, 1)
        for _ in range(8):
            await ctx.tick()
            valid = [ctx.get(channel.valid) for channel in (bus.b, bus.r)]
            ready = [ctx.get(channel.ready) for channel in (bus.aw, bus.w, bus.ar)]
            assert valid + ready == [0] * 5

    simulate(core, body)


def test_a_soft_reset_resets_the_trainer():
    core = Core()

    async def body(ctx):
        host = LiteHost(ctx, core.control, CORE.map)
        await ctx.tick().repeat(300)
        await host.write(length=7, soft_reset=1)
        counts = []
        while await host.read("soft_reset"):
            counts.append(ctx.get(core.inside.count))
        assert 0 in counts
        assert counts[0] > 300
        # the trainer runs again once the host sees the end of the reset
        assert 0 < ctx.get(core.inside.count) < RESET_DELAY + 10
        assert len(counts) < DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY
        assert await host.read("length") == 5

    simulate(core, body)


@pytest.mark.parametrize(
    "spec", [instantft(), instantft(**OPTIONS), zotrain()], ids=["instantft", "options", "zotrain"]
)
def test_no_reset_register_of_a_core_has_too_many_loads(spec):
    core = component(spec)
    parts = parts_of(core)
    Fragment.get(core, None)
    for tree in (parts.shell, parts.trainer):
        assert max(tree.loads) <= LOADS
        assert min(tree.loads) > 0
