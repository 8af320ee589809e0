"""Output reader: each stage's outputs in the order of its shape, several samples, other stages' dropped."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool, Relu
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.memories.output_memory import OutputReader

LAYERS = (Convolution(5, 2), Relu(), MaxPool(2), Convolution(3, 2), Relu(), Flatten(), Linear(4))
MAPPING = Mapping("read", stages_of("read", (1, 7, 9), LAYERS), lanes=16, columns=2)
SAMPLES = 3


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("stage", [0, 1, -1])
def test_outputs_of_a_stage(stage, stall, play):
    dut, own = OutputReader(MAPPING, stage), MAPPING.stages[stage]
    number = range(len(MAPPING.stages))[stage]
    rng = np.random.default_rng(number)
    shape = (SAMPLES, own.channels, own.cells)
    samples = rng.integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True)
    found, memory = [], {}

    async def outputs(ctx):
        port = dut.outputs
        while True:
            *_, enable, address, column = await ctx.tick().sample(port.enable, port.address, port.column)
            if enable:
                ctx.set(port.value, memory.get((address, column), 77))

    async def fill(ctx, at):
        """Another stage's outputs, then those of this one: in groups of as many channels as columns."""
        ctx.set(dut.outputs.filled, ((1 << len(MAPPING.stages)) - 1) & ~(1 << number))
        await ctx.tick()
        ctx.set(dut.outputs.filled, 0)
        for _ in range(4):
            await ctx.tick()
            assert not ctx.get(dut.outputs.full)
            assert not ctx.get(dut.o.valid)
        for channel, cell in np.ndindex(own.channels, own.cells):
            group, column = divmod(channel, MAPPING.columns)
            memory[own.output + group * own.cells + cell, column] = int(samples[at, channel, cell])
        ctx.set(dut.outputs.filled, 1 << number)
        await ctx.tick()
        ctx.set(dut.outputs.filled, 0)
        assert ctx.get(dut.outputs.full) == 1 << number

    async def body(ctx):
        for at in range(SAMPLES):
            await fill(ctx, at)
            values = []
            while len(values) < own.channels * own.cells:
                ready = rng.random() >= stall
                ctx.set(dut.o.ready, ready)
                *_, valid, value = await ctx.tick().sample(dut.o.valid, dut.o.payload)
                if valid and ready:
                    values.append(value)
            ctx.set(dut.o.ready, 0)
            found.append(values)
            assert not ctx.get(dut.outputs.full)
            memory.clear()

    play(dut, body, outputs)
    assert found == samples.reshape(SAMPLES, -1).tolist()


def test_both_sides_of_a_sample_in_their_order(play):
    """Both may be full at once; a side that is filled while the other one is read is not lost."""
    mapping = replace(MAPPING, sides=2)
    dut, own = OutputReader(mapping), mapping.stages[-1]
    first, channels = 2 * (len(mapping.stages) - 1), own.channels
    rng = np.random.default_rng(8)
    samples = rng.integers(Q8_16.minimum, Q8_16.maximum, (12, channels), endpoint=True)
    found, memory = [], {}

    async def outputs(ctx):
        port = dut.outputs
        while True:
            *_, enable, side, address, column = await ctx.tick().sample(
                port.enable, port.side, port.address, port.column
            )
            if enable:
                ctx.set(port.value, memory[side, address, column])

    async def fill(ctx):
        for number, values in enumerate(samples):
            side = number % 2
            while ctx.get(dut.outputs.full) >> (first + side) & 1:
                await ctx.tick()
            for channel in range(channels):
                group, column = divmod(channel, mapping.columns)
                memory[side, own.output + group, column] = int(values[channel])
            await ctx.tick().repeat(int(rng.integers(1, 2 * channels)))
            ctx.set(dut.outputs.filled, 1 << (first + side))
            await ctx.tick()
            ctx.set(dut.outputs.filled, 0)
            await ctx.tick()

    async def body(ctx):
        while len(found) < samples.size:
            ready = rng.random() >= 0.3
            ctx.set(dut.o.ready, ready)
            *_, valid, value = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                found.append(value)

    memory |= {(side, own.output + at, column): 0 for side in range(2) for at in range(9) for column in range(4)}
    play(dut, body, outputs, fill)
    assert found == samples.reshape(-1).tolist()
