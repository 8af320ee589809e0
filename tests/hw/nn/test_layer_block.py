"""Beat packer: whole beats, a last one with fewer values, several samples."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.layers import Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.layer_block import BeatPacker


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 5, 11, 12])
def test_samples_become_beats(inputs, stall, play):
    dut = BeatPacker(Mapping("packed", stages_of("packed", (inputs,), (Linear(3),))))
    rng = np.random.default_rng(inputs)
    samples = rng.integers(Q8_16.minimum, Q8_16.maximum, (3, inputs), endpoint=True)
    beats = []

    async def source(ctx):
        own = np.random.default_rng(1)
        for value in samples.reshape(-1).tolist():
            while own.random() < stall:
                await ctx.tick()
            ctx.set(dut.i.payload, value)
            ctx.set(dut.i.valid, 1)
            await ctx.tick().until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def body(ctx):
        for _ in samples:
            for _ in range(3):  # nothing is taken before the start
                assert not ctx.get(dut.i.ready)
                await ctx.tick()
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for _ in range(-(-inputs // 4)):
                ready = valid = False
                while not (ready and valid):
                    ready = rng.random() >= stall
                    ctx.set(dut.o.ready, ready)
                    *_, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
                beats.append(payload)
            ctx.set(dut.o.ready, 0)

    play(dut, body, source)
    each = np.array([[beat >> 32 * at & 0xFFFFFFFF for at in range(4)] for beat in beats])
    mask = (1 << Q8_16.width) - 1
    found = each.reshape(len(samples), -1)[:, :inputs] & mask
    assert found.tolist() == (samples & mask).tolist()
