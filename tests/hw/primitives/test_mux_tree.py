"""Multiplexer tree: the entry at an index, the last entry above the end."""

import pytest
from amaranth.hdl import Const, Module, Signal

from fabtune.hw.primitives.mux_tree import mux_tree

from ..simulation import simulate


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 15, 16])
@pytest.mark.parametrize("constant", [True, False])
def test_it_selects_the_entry_or_the_last_one(count, constant):
    m, index, result = Module(), Signal(max(1, (count - 1).bit_length())), Signal(8)
    entries = [Const(7 * at + 3, 8) if constant else Signal(8, init=7 * at + 3) for at in range(count)]
    m.d.comb += result.eq(mux_tree(index, entries))

    async def bench(ctx):
        for value in range(1 << len(index)):
            ctx.set(index, value)
            assert ctx.get(result) == 7 * min(value, count - 1) + 3

    simulate(m, bench)


def test_a_short_index_reaches_the_first_entries():
    m, index, result = Module(), Signal(1), Signal(8)
    m.d.comb += result.eq(mux_tree(index, [Const(at, 8) for at in (10, 11, 12, 13)]))

    async def bench(ctx):
        for value in range(2):
            ctx.set(index, value)
            assert ctx.get(result) == 10 + value

    simulate(m, bench)
