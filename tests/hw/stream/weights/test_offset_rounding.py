"""Rounding of offsets against `golden.fixed`: ends of the deltas, ties, and a bit to either side, for each fraction."""

import numpy as np

from fabtune.golden.fixed import narrow, shifted
from fabtune.golden.stream.weights.word_offsets import MOST_FRACTION, OFFSET
from fabtune.golden.zo.deltas import DELTA
from fabtune.hw.stream.weights.offset_rounding import OffsetRounding

from ...simulation import simulate

WIDTH = 36


def test_each_fraction():
    cases = []
    for fraction in range(MOST_FRACTION + 1):
        unit = 1 << (DELTA.fraction - fraction)
        places = [0, unit // 2, 3 * unit // 2, -unit // 2, DELTA.minimum, DELTA.maximum + 1, DELTA.maximum - unit // 2]
        cases += [(place + beside, fraction) for place in places for beside in (-1, 0, 1)]
        cases += [(end, fraction) for end in (-(1 << (WIDTH - 1)), (1 << (WIDTH - 1)) - 1)]
    totals, fractions = (np.array(column) for column in zip(*cases, strict=True))
    rounded = shifted(narrow(totals, DELTA, DELTA), DELTA.fraction - fractions)
    expected = np.clip(rounded, OFFSET.minimum, OFFSET.maximum).tolist()
    beyond = ((totals < DELTA.minimum) | (totals > DELTA.maximum)).tolist()
    dut = OffsetRounding(WIDTH)

    async def bench(ctx):
        for cycle in range(len(cases) + dut.latency):
            if (at := cycle - dut.latency) >= 0:
                assert ctx.get(dut.o) == expected[at], cases[at]
            total, _ = cases[min(cycle, len(cases) - 1)]
            ctx.set(dut.total, total)
            if 0 < cycle <= len(cases):
                ctx.set(dut.fraction, cases[cycle - 1][1])
            if cycle < len(cases):
                assert ctx.get(dut.overflow) == beyond[cycle]
            await ctx.tick()

    simulate(dut, bench)
