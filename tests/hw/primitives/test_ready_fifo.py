# amaranth: UnusedElaboratable=no
"""FIFO with a registered `ready`: order, capacity, latency."""

import pytest

from fabtune.hw.primitives.fifo import Fifo
from fabtune.hw.primitives.ready_fifo import ReadyFifo

from ..play import play_interface
from ..simulation import simulate


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("depth", [2, 4])
def test_words_leave_in_order(depth, stall):
    words = list(range(1, 400))
    assert play_interface(ReadyFifo(16, depth), {"i": words}, {"o": len(words)}, stall=stall).words("o") == words


def test_its_words_leave_in_the_cycles_of_a_fifo():
    ours, theirs = (play_interface(dut, {"i": list(range(50))}, {"o": 50}) for dut in (ReadyFifo(8, 2), Fifo(8, 2)))
    assert ours.cycles("o") == theirs.cycles("o") == list(range(2, 52))


def test_it_holds_one_word_more_than_its_depth():
    dut, stored = ReadyFifo(8, 2), []

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        for number in range(8):
            ctx.set(dut.i.payload, number)
            stored.extend([number] * (await ctx.tick().sample(dut.i.ready))[2])
        assert stored == [0, 1, 2]
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        for number in stored:
            assert (await ctx.tick().sample(dut.o.valid, dut.o.payload))[2:] == (1, number)
        assert not ctx.get(dut.o.valid)

    simulate(dut, bench)
