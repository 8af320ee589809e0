# amaranth: UnusedElaboratable=no
"""Delay line: every value the given number of cycles later, zero before the first, reset clears it."""

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data

from fabtune.hw.primitives.pipeline import delayed


@pytest.mark.parametrize("cycles", [0, 1, 4])
def test_values_come_later(cycles, simulate):
    m, value, result, reset = Module(), Signal(8), Signal(8), Signal()
    inner = Module()
    m.submodules.inner = ResetInserter(reset)(inner)
    inner.d.comb += result.eq(delayed(inner, value, cycles))
    clock = Signal()
    m.d.sync += clock.eq(~clock)

    async def bench(ctx):
        for cycle in range(12):
            ctx.set(value, cycle + 1)
            assert ctx.get(result) == max(cycle + 1 - cycles, 0)
            await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(value, 99)
        for _ in range(cycles):
            assert ctx.get(result) == 0
            await ctx.tick()
        assert ctx.get(result) == 99

    simulate(m, bench)


def test_a_view_comes_back_as_one():
    m, layout = Module(), data.StructLayout({"a": 3, "b": 5})
    assert delayed(m, Signal(layout), 2).shape() == layout
    assert len(delayed(m, Signal(5), 2)) == 5
