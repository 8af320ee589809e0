"""Target memory: samples of bytes and of Q8.16, for one side or both, with gaps before it and stalls behind it."""

import numpy as np
import pytest

from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.images import samples_image
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.cores.zotrain.target_memory import TargetMemory

CASES = {
    "bytes": ("21 fc21", {}),
    "one beat": ("5 fc5", {}),
    "whole beats": ("32 fc32", {}),
    "Q8.16": ("9 fc9", {"byte_inputs": False}),
    "one side": ("21 fc21", {"sides": 1}),
}


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("name", CASES)
def test_samples_come_once_for_each_side(name, stall, play):
    text, options = CASES[name]
    mapping = Mapping.of(network_from(text), 16, 2, **{"sides": 2, **options})
    rng, count = np.random.default_rng(1), 7
    shape = (count, *mapping.input_shape)
    inputs = rng.integers(0, 256, shape) if mapping.byte_inputs else rng.integers(-(1 << 23), 1 << 23, shape)
    values = q8_16_of_bytes(inputs) if mapping.byte_inputs else inputs
    beats = [int.from_bytes(row.tobytes(), "little") for row in samples_image(mapping, inputs).reshape(-1, 16)]
    dut, found = TargetMemory(mapping), []
    expected = np.repeat(values.reshape(count, -1), mapping.sides, axis=0).reshape(-1).tolist()
    kept = []

    async def body(ctx):
        for number in range(count):
            while not ctx.get(dut.room) or rng.random() < stall:
                await ctx.tick()
            kept.append(number + 1 - len(found) // (mapping.sides * mapping.inputs))
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for beat in beats[number * mapping.sample_beats : (number + 1) * mapping.sample_beats]:
                while rng.random() < stall:
                    await ctx.tick()
                ctx.set(dut.write, 1)
                ctx.set(dut.beat, beat)
                await ctx.tick()
                ctx.set(dut.write, 0)
        while len(found) < len(expected):
            await ctx.tick()

    async def sink(ctx):
        own = np.random.default_rng(2)
        while True:
            ready = own.random() >= stall
            ctx.set(dut.o.ready, ready)
            *_, valid, value = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                found.append(value)

    play(dut, body, sink)
    assert found == expected
    # of one more the last beat is being given
    assert max(kept) <= mapping.sample_buffers + 2
