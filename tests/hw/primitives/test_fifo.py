# amaranth: UnusedElaboratable=no
"""FIFO: order, capacity, latency, flags, and equality with Amaranth's FIFO cycle by cycle."""

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.hw.primitives.fifo import Fifo

from ..play import play_interface
from ..simulation import simulate


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("depth", [2, 4, 128])
def test_words_leave_in_order(depth, stall):
    words = list(range(1, 400))
    seen = play_interface(Fifo(16, depth), {"i": words}, {"o": len(words)}, stall=stall)
    assert seen.words("o") == words


def test_latency_is_two_cycles_and_throughput_one_word_a_cycle():
    seen = play_interface(Fifo(8, 4), {"i": list(range(50))}, {"o": 50})
    assert seen.cycles("i") == list(range(50))
    assert seen.cycles("o") == list(range(2, 52))


def test_a_payload_may_have_fields():
    words = [{"address": 5 * at, "last": at % 2} for at in range(20)]
    layout = data.StructLayout({"address": 8, "last": 1})
    assert play_interface(Fifo(layout, 4), {"i": words}, {"o": 20}, stall=0.3).words("o") == words


def test_capacity_and_empty():
    dut, stored = Fifo(8, 4), []

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        for number in range(10):
            ctx.set(dut.i.payload, number)
            ready, empty = (await ctx.tick().sample(dut.i.ready, dut.empty))[2:]
            stored.extend([number] * ready)
            assert empty == (number == 0)
        assert stored == [0, 1, 2, 3, 4], "four in the memory and one in the output register"
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        for number in stored:
            assert (await ctx.tick().sample(dut.o.valid, dut.o.payload))[2:] == (1, number)
        assert (ctx.get(dut.o.valid), ctx.get(dut.empty)) == (0, 1)

    simulate(dut, bench)


@pytest.mark.parametrize("depth", [0, 1, 3, 100])
def test_a_depth_that_is_no_power_of_two_is_refused(depth):
    with pytest.raises(ValueError, match="power of two"):
        Fifo(8, depth)


class Reference(wiring.Component):
    """Amaranth's FIFO of the same capacity with the same ports."""

    def __init__(self, width, depth):
        self.width, self.depth = width, depth
        ports = {"i": In(stream.Signature(width)), "o": Out(stream.Signature(width)), "empty": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.width, depth=self.depth + 1)
        wiring.connect(m, wiring.flipped(self.i), fifo.w_stream)
        wiring.connect(m, fifo.r_stream, wiring.flipped(self.o))
        m.d.comb += self.empty.eq(fifo.level == 0)
        return m


@pytest.mark.parametrize("depth", [2, 8])
@pytest.mark.parametrize(("offered", "taken"), [(1.0, 1.0), (0.9, 0.3), (0.3, 0.9), (0.5, 0.5)])
def test_it_equals_the_standard_one_in_every_cycle(depth, offered, taken):
    m, rng = Module(), np.random.default_rng(depth)
    m.submodules.ours, m.submodules.theirs = both = Fifo(8, depth), Reference(8, depth)

    async def bench(ctx):
        for _ in range(500):
            valid, ready, payload = rng.random() < offered, rng.random() < taken, int(rng.integers(256))
            for fifo in both:
                ctx.set(fifo.i.valid, valid)
                ctx.set(fifo.i.payload, payload)
                ctx.set(fifo.o.ready, ready)
            outputs = [signal for fifo in both for signal in (fifo.i.ready, fifo.o.valid, fifo.o.payload, fifo.empty)]
            found = (await ctx.tick().sample(*outputs))[2:]
            ours, theirs = list(found[:4]), list(found[4:])
            if not ours[1] and not theirs[1]:
                ours[2] = theirs[2] = 0
            assert ours == theirs

    simulate(m, bench)


FIGURES = [(128, 4), (129, 8), (17, 16), (28, 32), (128, 128), (129, 512)]
"""Widths and depths of the FIFOs in the AXI blocks and in the cores."""


def cost(component):
    found = estimate_rtlil(rtlil.convert(component, name="top", emit_src=False), "top")
    return found.resources["lut"], found.resources["ff"], found.logic_levels


@pytest.mark.slow
@pytest.mark.parametrize(("width", "depth"), FIGURES)
def test_fifo_figures(width, depth):
    """The table in the docstring of `Fifo`."""
    ours, theirs = cost(Fifo(width, depth)), cost(Reference(width, depth))
    print(f"{width:<8}  {depth:<8}  {str(ours)[1:-1]:<13}  {str(theirs)[1:-1]}")
    row = [str(width), str(depth), *map(str, ours), *map(str, theirs)]
    assert any(line.replace(",", " ").split() == row for line in Fifo.__doc__.splitlines())
