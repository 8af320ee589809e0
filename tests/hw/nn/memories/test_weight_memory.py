"""Weight memory: words read as their beats were written, one or several beats at once, by mask."""

import numpy as np
import pytest

from fabtune.hw.nn.memories.weight_memory import WeightMemory

from ...play import simulate

DEPTH, LANES, COLUMNS, VALUES = 5, 8, 4, 8


@pytest.mark.parametrize("beats_per_write", [1, 2, 4])
def test_words_are_read_a_cycle_later(beats_per_write):
    dut = WeightMemory(DEPTH, LANES, COLUMNS, beats_per_write)
    beats = LANES * COLUMNS // VALUES
    words = np.random.default_rng(0).integers(-(1 << 15), 1 << 15, (DEPTH, LANES * COLUMNS))
    packed = [
        [sum((int(v) & 0xFFFF) << 16 * j for j, v in enumerate(part)) for part in word.reshape(beats, VALUES)]
        for word in words
    ]

    async def bench(ctx):
        for row in reversed(range(DEPTH)):
            for first in range(0, beats, beats_per_write):
                part = packed[row][first : first + beats_per_write]
                ctx.set(dut.write, (1 << beats_per_write) - 1)
                ctx.set(dut.index, row * beats + first)
                ctx.set(dut.beats, sum(beat << 128 * at for at, beat in enumerate(part)))
                await ctx.tick()
        ctx.set(dut.write, 0)
        ctx.set(dut.beats, 0)
        await ctx.tick()
        for row in [*range(DEPTH), 2, 0]:
            ctx.set(dut.address, row)
            await ctx.tick()
            assert list(ctx.get(dut.word)) == words[row].tolist()

    simulate(dut, bench)


def test_only_the_beats_of_the_mask_are_written():
    dut = WeightMemory(DEPTH, LANES, COLUMNS, 2)

    async def bench(ctx):
        for mask, value in ((0b11, 1), (0b10, 2), (0b01, 3)):
            ctx.set(dut.write, mask)
            ctx.set(dut.index, 4 * 1 + 2)
            ctx.set(dut.beats, sum(value << 16 * at for at in range(16)))
            await ctx.tick()
        ctx.set(dut.write, 0)
        ctx.set(dut.address, 1)
        await ctx.tick()
        assert list(ctx.get(dut.word)) == [0] * 16 + [3] * 8 + [2] * 8

    simulate(dut, bench)
