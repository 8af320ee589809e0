"""Address sequences over chunks: golden's addresses, from any group, with gaps, one sequence after another."""

import pytest

from fabtune.golden.stream.memory.chunks import ChunkLayout, ValueAddress
from fabtune.hw.stream.memory.chunk_line import ChunkLine

from ...simulation import simulate


@pytest.mark.parametrize("columns", [2, 8])
def test_walks_are_those_of_golden(columns):
    layout = ChunkLayout(lanes=8, columns=columns, rows=4000, wide_rows=1000)
    dut = ChunkLine(layout)

    async def bench(ctx):
        for place, first, stride in (
            (ValueAddress(False, 30), 0, 10),
            (ValueAddress(True, 7), 0, 255),
            (ValueAddress(False, 1), 5, 64),
        ):
            begin = layout.chunk(place, first, 0, stride)
            # an advance in the same cycle has no effect
            for name, value in (("start", 1), ("advance", first), ("wide", place.wide), ("stride", stride)):
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.base, begin.address)
            ctx.set(dut.first_part, begin.part)
            await ctx.tick()
            for port in (dut.start, dut.base, dut.first_part, dut.wide):
                ctx.set(port, 0)  # taken with start alone
            for group in range(first, first + 3 * layout.parts):
                found = ctx.get(dut.in_wide), ctx.get(dut.line), ctx.get(dut.part)
                assert found == layout.chunk(place, group, 0, stride)
                ctx.set(dut.advance, 0)
                await ctx.tick().repeat(1 + group % 2)
                ctx.set(dut.advance, 1)
                await ctx.tick()

    simulate(dut, bench)
