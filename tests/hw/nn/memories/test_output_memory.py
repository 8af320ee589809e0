"""Output reader: outputs of a stage in shape order, several samples, other stages dropped."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, Flatten, Linear, MaxPool
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.memories.output_memory import OutputReader

from ...play import play_interface

LAYERS = (Convolution(5, 2), Relu(), MaxPool(2), Convolution(3, 2), Relu(), Flatten(), Linear(4))
MAPPING = Mapping("read", stages_of("read", (1, 7, 9), LAYERS), lanes=16, columns=2)
SAMPLES = 3


PAIRED = Mapping("pairs", stages_of("pairs", (2, 7, 8), LAYERS[:2] + LAYERS[3:]), lanes=16, columns=16, pairs="frozen")


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(("mapping", "stage"), [(MAPPING, 0), (MAPPING, 1), (MAPPING, -1), (PAIRED, 1)])
def test_outputs_of_a_stage(mapping, stage, stall):
    own, number = mapping.stages[stage], range(len(mapping.stages))[stage]
    beside = 2 if own.spread else 1
    assert (own.spread > 0) == (mapping is PAIRED)
    shape = (SAMPLES, own.channels, own.cells * beside)
    samples = np.random.default_rng(number).integers(Q8_16.minimum, Q8_16.maximum, shape, endpoint=True)
    found, memory = [], {}

    def outputs(port):
        return {"value": memory.get((port["address"], port["column"]), 77)} if port["enable"] else None

    async def fill(bench, sample):
        """Outputs of another stage, then of this one, in groups of `columns` channels."""
        bench.set({"outputs.filled": ((1 << len(mapping.stages)) - 1) & ~(1 << number)})
        await bench.tick()
        bench.set({"outputs.filled": 0})
        for _ in range(4):
            await bench.tick()
            assert not bench.get("outputs.full")
            assert not bench.get("o.valid")
        for channel, cell in np.ndindex(sample.shape):
            (group, column), (row, pixel) = divmod(channel, mapping.columns), divmod(cell, beside)
            memory[own.output + group * own.cells + row, column + pixel * own.spread] = sample[channel, cell]
        bench.set({"outputs.filled": 1 << number})
        await bench.tick()
        bench.set({"outputs.filled": 0})
        assert bench.get("outputs.full") == 1 << number

    async def body(bench):
        for sample in samples:
            await fill(bench, sample)
            found.append(await bench.take("o", sample.size))
            assert not bench.get("outputs.full")
            memory.clear()

    play_interface(OutputReader(mapping, stage), answer={"outputs": outputs}, body=body, stall=stall)
    assert found == samples.reshape(SAMPLES, -1).tolist()


def test_both_sides_of_a_sample_in_their_order():
    """Both sides may be full; filling one while reading the other loses nothing."""
    mapping = replace(MAPPING, sides=2)
    own, first = mapping.stages[-1], 2 * (len(mapping.stages) - 1)
    rng = np.random.default_rng(8)
    samples = rng.integers(Q8_16.minimum, Q8_16.maximum, (12, own.channels), endpoint=True)
    memory = {(side, own.output + at, column): 0 for side in range(2) for at in range(9) for column in range(4)}

    def outputs(port):
        return {"value": memory[port["side"], port["address"], port["column"]]} if port["enable"] else None

    async def body(bench):
        for number, values in enumerate(samples):
            side = number % 2
            while bench.get("outputs.full") >> (first + side) & 1:
                await bench.tick()
            for channel, value in enumerate(values):
                group, column = divmod(channel, mapping.columns)
                memory[side, own.output + group, column] = value
            await bench.tick(int(rng.integers(1, 2 * own.channels)))
            bench.set({"outputs.filled": 1 << (first + side)})
            await bench.tick()
            bench.set({"outputs.filled": 0})
            await bench.tick()

    dut = OutputReader(mapping)
    seen = play_interface(dut, take={"o": samples.size}, answer={"outputs": outputs}, body=body, stall=0.3)
    assert seen.words("o") == samples.reshape(-1).tolist()
