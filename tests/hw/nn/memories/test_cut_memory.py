"""Cut memory: outputs of the stage before the cut are written again, both sides of a pass, where there is time."""

import numpy as np
import pytest

from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.memories.cut_memory import CutMemory, OwnRows

MAPPING = Mapping.of(network_from("1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"), 16, 4)
PASSES, SIDES = 4, 2


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_outputs_are_restored_in_their_order(cut, stall, play):
    stage = MAPPING.stages[cut - 1]
    rows = stage.groups * stage.cells
    dut, rng = CutMemory(MAPPING, OwnRows(MAPPING, PASSES * SIDES * rows)), np.random.default_rng(6)
    columns, largest = MAPPING.columns, 1 << len(dut.address)

    def drawn():
        values = [int(one) for one in rng.integers(-(1 << 23), 1 << 23, columns)]
        return int(rng.integers(1, 1 << columns)), int(rng.integers(largest)), values

    async def write(ctx, row):
        for name, value in zip(("mask", "address", "values"), row, strict=True):
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.write, 1)
        await ctx.tick()
        ctx.set(dut.write, 0)

    async def begin(ctx, final):
        ctx.set(dut.begin, 1)
        ctx.set(dut.final, final)
        await ctx.tick()
        ctx.set(dut.begin, 0)

    found = []

    async def step(ctx):
        ctx.set(dut.ready, rng.random() >= stall)
        if ctx.get(dut.ready) and ctx.get(dut.o_valid):
            found.append((ctx.get(dut.o_mask), ctx.get(dut.o_address), [ctx.get(one) for one in dut.o_values]))
        await ctx.tick()

    async def body(ctx):
        ctx.set(dut.cut, cut)
        for _ in range(2):
            ctx.set(dut.recording, 0)
            await ctx.tick().repeat(3)
            ctx.set(dut.recording, 1)
            sides = []
            for _ in range(PASSES * SIDES):
                # outputs of the stages before are none of its own
                await begin(ctx, 0)
                await write(ctx, drawn())
                await begin(ctx, 1)
                sides.append([drawn() for _ in range(rows)])
                for row in sides[-1]:
                    await write(ctx, row)
            await ctx.tick().repeat(3)
            ctx.set(dut.recording, 0)
            for between in (1, rows + 9):
                ctx.set(dut.restart, 1)
                await ctx.tick()
                ctx.set(dut.restart, 0)
                for number in range(PASSES):
                    while not ctx.get(dut.restored):
                        await step(ctx)
                    assert found == [row for side in range(SIDES) for row in sides[SIDES * number + side]]
                    found.clear()
                    ctx.set(dut.taken, 1)
                    await step(ctx)
                    ctx.set(dut.taken, 0)
                    assert not ctx.get(dut.restored)
                    for _ in range(SIDES if number < PASSES - 1 else 0):
                        ctx.set(dut.free, 1)
                        await step(ctx)
                        ctx.set(dut.free, 0)
                        for _ in range(between - 1):
                            await step(ctx)
                for _ in range(rows + 4):
                    await step(ctx)
                assert not found

    play(dut, body)
