"""A forward engine alone, from images to the outputs of all stages."""

from itertools import product

import numpy as np
from amaranth.hdl import EnableInserter, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.interfaces import ACTIVATION, BEATS, SampleInput
from fabtune.hw.nn.memories.output_memory import OutputReader

READ = ("enable", "address", "column")
"""Members of `StageOutputs` with which a reader reads."""


class Inference(wiring.Component):
    """A forward engine whose outputs are read as a stream, of the stage that `stage` names; the others wait."""

    def __init__(self, mapping):
        self.mapping, self.engine = mapping, ForwardEngine(mapping)
        super().__init__(
            {
                "load": In(BEATS),
                "loaded": Out(1),
                "sample": In(SampleInput()),
                "hold": In(1),
                "stage": In(range(len(mapping.stages))),
                "o": Out(stream.Signature(ACTIVATION)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = self.engine
        outputs = self.engine.outputs
        for stage in range(len(self.mapping.stages)):
            reader, waiting = OutputReader(self.mapping, stage), Signal(name=f"waiting{stage}")
            m.submodules[f"reader{stage}"] = EnableInserter(self.stage == stage)(reader)
            m.d.comb += reader.outputs.filled[stage].eq(outputs.filled[stage] | waiting)
            m.d.comb += outputs.full[stage].eq(reader.outputs.full[stage] | waiting)
            with m.If(self.stage == stage):
                m.d.sync += waiting.eq(0)
                wiring.connect(m, reader.o, wiring.flipped(self.o))
                m.d.comb += [getattr(outputs, one).eq(getattr(reader.outputs, one)) for one in READ]
                m.d.comb += reader.outputs.value.eq(outputs.value)
            with m.Elif(outputs.filled[stage]):
                m.d.sync += waiting.eq(1)
        wiring.connect(m, wiring.flipped(self.load), self.engine.load)
        wiring.connect(m, wiring.flipped(self.sample), self.engine.sample)
        m.d.comb += [self.loaded.eq(self.engine.loaded), self.engine.hold.eq(self.hold)]
        return m


def beats(image):
    """Beats of an image of bytes."""
    return [int.from_bytes(row.tobytes(), "little") for row in image.reshape(-1, 16)]


def infer(mapping, parameters, images, stall=0.0, hold=0):
    """Outputs of samples, a list for each stage, and the cycle of the first start.

    `parameters` is the image of those. With `hold` no sample starts before that cycle.
    """
    dut, found, started = Inference(mapping), [[] for _ in mapping.stages], []

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
        rng, cycle = np.random.default_rng(5), 0
        for _, number in product(range(len(images)), range(len(found))):
            ctx.set(dut.stage, number)
            wanted = len(found[number]) + mapping.stages[number].channels * mapping.stages[number].cells
            while len(found[number]) < wanted:
                ctx.set(dut.hold, cycle < hold)
                ready = rng.random() >= stall
                ctx.set(dut.o.ready, ready)
                if ctx.get(dut.engine.running):
                    started.append(cycle)
                if ready and ctx.get(dut.o.valid):
                    found[number].append(ctx.get(dut.o.payload))
                await ctx.tick()
                cycle += 1
                assert cycle < 30_000

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(feed, background=True)
    simulator.add_testbench(take)
    simulator.run()
    return found, started[0]
