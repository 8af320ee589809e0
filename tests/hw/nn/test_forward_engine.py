"""The forward engine alone, without adapters or a host: a network's outputs, sample by sample."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fabtune.golden.fixed import Narrower, q8_16_of_bytes
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool, Relu
from fabtune.golden.models.network import Network
from fabtune.golden.nn.forward import StageIntegers, forward
from fabtune.golden.nn.images import frozen_image, samples_image
from fabtune.golden.nn.mapping import Mapping
from fabtune.golden.nn.products import product_of
from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.interfaces import BEATS, SampleInput
from fabtune.hw.nn.output_memory import OutputReader

NETWORK = Network(
    "own", (1, 7, 6), (Convolution(3, 2, 1), Relu(), MaxPool(2), Convolution(5, 2), Relu(), Flatten(), Linear(3))
)
SETTINGS = {"lanes": 16, "columns": 2}


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


def parameters(mapping, rng):
    """Random weights and biases of all stages."""
    return [
        StageIntegers(rng.integers(-9000, 9000, stage.weight_shape), rng.integers(-9000, 9000, stage.biases))
        for stage in mapping.network_stages
    ]


def outputs(mapping, frozen, samples, stage):
    """What golden finds for the outputs of a stage, flat."""
    x, product, narrower = samples, product_of("int64"), Narrower()
    for one, own in list(zip(mapping.network_stages, frozen, strict=True))[: stage + 1 or None]:
        x = forward(one, own, x, product, narrower)
    return x.reshape(-1).tolist()


def beats(image):
    """Beats of an image of bytes."""
    return [int.from_bytes(row.tobytes(), "little") for row in image.reshape(-1, 16)]


def infer(mapping, frozen, images, expected, stage=-1, stall=0.0, hold=0):
    """Outputs of a stage; with `hold` no sample starts before that cycle."""
    dut, found, started = Inference(mapping, stage), [], []

    async def feed(ctx):
        for beat in beats(frozen_image(mapping, frozen)):
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


@pytest.mark.parametrize("stage", [0, 1, -1])
def test_outputs_of_every_stage(stage):
    mapping = Mapping.of(NETWORK, **SETTINGS)
    rng = np.random.default_rng(1)
    frozen, samples = parameters(mapping, rng), rng.integers(0, 256, (3, *NETWORK.input_shape))
    expected = outputs(mapping, frozen, q8_16_of_bytes(samples), stage)
    assert infer(mapping, frozen, samples_image(mapping, samples), len(expected), stage)[0] == expected


def test_stalls_change_no_output():
    mapping = Mapping.of(NETWORK, **SETTINGS)
    rng = np.random.default_rng(2)
    frozen, samples = parameters(mapping, rng), rng.integers(0, 256, (3, *NETWORK.input_shape))
    expected = outputs(mapping, frozen, q8_16_of_bytes(samples), -1)
    assert infer(mapping, frozen, samples_image(mapping, samples), len(expected), stall=0.4)[0] == expected


def test_a_vector_in_words():
    mapping = Mapping.of(Network("fc", (21,), (Linear(9), Relu(), Linear(4))), **SETTINGS, byte_inputs=False)
    rng = np.random.default_rng(3)
    frozen, samples = parameters(mapping, rng), rng.integers(-60000, 60000, (3, 21))
    expected = outputs(mapping, frozen, samples, -1)
    assert infer(mapping, frozen, samples_image(mapping, samples), len(expected))[0] == expected


def test_no_sample_starts_on_hold():
    mapping = Mapping.of(NETWORK, **SETTINGS)
    rng = np.random.default_rng(6)
    frozen, samples = parameters(mapping, rng), rng.integers(0, 256, (2, *NETWORK.input_shape))
    expected = outputs(mapping, frozen, q8_16_of_bytes(samples), -1)
    found, started = infer(mapping, frozen, samples_image(mapping, samples), len(expected), hold=2000)
    assert (found, started) == (expected, 2001)
