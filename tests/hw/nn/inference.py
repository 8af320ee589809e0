"""A forward engine alone, from images to the outputs of a stage."""

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.interfaces import BEATS, SampleInput
from fabtune.hw.nn.memories.output_memory import OutputReader


class Inference(wiring.Component):
    """A forward engine whose outputs of one stage are read as a stream."""

    def __init__(self, mapping, stage):
        self.engine, self.reader = ForwardEngine(mapping), OutputReader(mapping, stage)
        o = self.reader.signature.members["o"].signature
        super().__init__({"load": In(BEATS), "loaded": Out(1), "sample": In(SampleInput()), "hold": In(1), "o": Out(o)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine, m.submodules.reader = self.engine, self.reader
        wiring.connect(m, self.engine.outputs, self.reader.outputs)
        wiring.connect(m, wiring.flipped(self.load), self.engine.load)
        wiring.connect(m, wiring.flipped(self.sample), self.engine.sample)
        wiring.connect(m, self.reader.o, wiring.flipped(self.o))
        m.d.comb += [self.loaded.eq(self.engine.loaded), self.engine.hold.eq(self.hold)]
        return m


def beats(image):
    """Beats of an image of bytes."""
    return [int.from_bytes(row.tobytes(), "little") for row in image.reshape(-1, 16)]


def infer(mapping, parameters, images, expected, stage=-1, stall=0.0, hold=0):
    """Outputs of a stage, and the cycle of the first start. With `hold` no sample starts before that cycle.

    `parameters` is the image of those.
    """
    dut, found, started = Inference(mapping, stage), [], []

    async def feed(ctx):
        for beat in beats(parameters):
            ctx.set(dut.load.payload, beat)
            ctx.set(dut.load.valid, 1)
            assert ctx.get(dut.load.ready)
            last = ctx.get(dut.loaded)
            await ctx.tick()
        assert last
        ctx.set(dut.load.valid, 0)
        rng = np.random.default_rng(4)
        for image in images:
            while not ctx.get(dut.sample.room):
                await ctx.tick()
            ctx.set(dut.sample.start, 1)
            await ctx.tick()
            ctx.set(dut.sample.start, 0)
            done = False
            for beat in beats(image):
                while rng.random() < stall:
                    await ctx.tick()
                ctx.set(dut.sample.beats.payload, beat)
                ctx.set(dut.sample.beats.valid, 1)
                await ctx.tick().until(dut.sample.beats.ready)
                ctx.set(dut.sample.beats.valid, 0)
            for _ in range(200):
                done = done or ctx.get(dut.sample.done)
                await ctx.tick()
                if done:
                    break
            assert done

    async def take(ctx):
        rng = np.random.default_rng(5)
        for cycle in range(20000):
            ctx.set(dut.hold, cycle < hold)
            ready = rng.random() >= stall
            ctx.set(dut.o.ready, ready)
            if ready and ctx.get(dut.o.valid):
                found.append(ctx.get(dut.o.payload))
            if ctx.get(dut.engine.running):
                started.append(cycle)
            if len(found) == expected:
                return
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(feed, background=True)
    simulator.add_testbench(take)
    simulator.run()
    return found, started[0]
