# amaranth: UnusedElaboratable=no
"""Adder tree: exact signed sums after log2 cycles, a set of operands per cycle."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed

from fabtune.hw.primitives.adder_tree import adder_tree

from ..simulation import simulate


@pytest.mark.parametrize("levels", [0, 1, 3, 5])
def test_sums_are_exact_and_come_a_cycle_a_level_later(levels):
    width, count = 6, 1 << levels
    m, operands = Module(), [Signal(signed(width), name=f"operand_{at}") for at in range(count)]
    total = adder_tree(m, operands, "sum")
    result, lowest, highest = Signal(signed(len(total))), -(1 << (width - 1)), (1 << (width - 1)) - 1
    m.d.comb += result.eq(total)
    clock = Signal()
    m.d.sync += clock.eq(~clock)  # without operands to add there is no register
    assert len(total) == width + levels
    sets = np.random.default_rng(levels).integers(lowest, highest, (30, count), endpoint=True)
    sets[3], sets[4] = lowest, highest

    async def bench(ctx):
        for cycle, values in enumerate(sets.tolist()):
            for operand, value in zip(operands, values, strict=True):
                ctx.set(operand, value)
            if cycle >= levels:
                assert ctx.get(result) == sets[cycle - levels].sum()
            await ctx.tick()

    simulate(m, bench)


@pytest.mark.parametrize("count", [0, 3, 6])
def test_a_number_of_operands_that_is_no_power_of_two_is_refused(count):
    with pytest.raises(ValueError, match="power of two"):
        adder_tree(Module(), [Signal(signed(4)) for _ in range(count)], "sum")
