"""Address of a word: remainder and iteration of the word's number, at all ends, in sequence."""

import numpy as np
import pytest

from fabtune.hw.stream.weights.word_place import WordPlace

from ...simulation import simulate


@pytest.mark.parametrize(("times", "n", "turn"), [(255, 31, 7), (15, 2, 1), (511, 32, 0), (31, 40, 31)])
def test_remainder_and_turn(times, n, turn):
    rng = np.random.default_rng(1)
    passes = [0, 1, n - 1, n, int(rng.integers(1 << 32)) // times]
    words = [times * one + row for one in passes for row in (0, 1, times - 1)] + [(1 << 32) - 1]
    dut = WordPlace(times, n, turn)

    async def bench(ctx):
        for word in words:
            assert (ctx.get(dut.row), ctx.get(dut.turned), ctx.get(dut.found)) == (0, 0, 0)
            ctx.set(dut.find, 1)
            ctx.set(dut.word, word)
            await ctx.tick().repeat(dut.CYCLES - 1)
            assert not ctx.get(dut.found)
            await ctx.tick().repeat(1 + word % 3)
            assert ctx.get(dut.found)
            assert (ctx.get(dut.row), ctx.get(dut.turned)) == (word % times, word // times * turn % n)
            ctx.set(dut.restart, 1)
            await ctx.tick()
            ctx.set(dut.restart, 0)
            ctx.set(dut.find, 0)

    simulate(dut, bench)
