"""Rounding and saturation against `golden.fixed.narrow`: every input if the width allows, else all edges."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed

from fabtune.golden.fixed import Q4_12, Q8_16, Format, narrow
from fabtune.hw.primitives.rounding import RoundSaturate, saturate, saturate_to

from ..simulation import simulate


def edges(width, drop, target):
    """Numbers around the ends of both ranges, around 0, and ties above an even and an odd integer."""
    half, low, high = 1 << (drop - 1), -(1 << (width - 1)), (1 << (width - 1)) - 1
    about = [0, low, high, *(end << drop for end in (target.minimum, target.maximum))]
    values = {value + step for value in about for step in (-half - 1, -half, -half + 1, -1, 0, 1, half - 1, half)}
    values |= {(odd << drop) + half + step for odd in (-4, -3, -2, -1, 0, 1, 2, 3) for step in (-1, 0, 1)}
    return np.array(sorted(value for value in values if low <= value <= high))


@pytest.mark.parametrize(
    ("width", "drop", "target"),
    [
        (8, 1, Format(2, 1)),
        (9, 3, Format(2, 2)),
        (9, 3, Format(4, 2)),
        (48, 12, Q8_16),
        (40, 16, Q4_12),
        (50, 12, Q8_16),
    ],
)
def test_it_equals_golden(width, drop, target):
    values = np.arange(-(1 << (width - 1)), 1 << (width - 1)) if width < 10 else edges(width, drop, target)
    expected = narrow(values, target.fraction + drop, target)
    unlimited = Format(40, target.fraction)
    clipped = expected != narrow(values, target.fraction + drop, unlimited)
    dut = RoundSaturate(width, drop, target)

    async def bench(ctx):
        for cycle in range(len(values) + dut.LATENCY):
            if cycle >= dut.LATENCY:
                at = cycle - dut.LATENCY
                assert (ctx.get(dut.o), ctx.get(dut.clipped)) == (expected[at], clipped[at]), values[at]
            ctx.set(dut.i, int(values[min(cycle, len(values) - 1)]))
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize(("width", "target"), [(8, 5), (6, 5), (5, 5)])
def test_saturate_equals_clipping(width, target):
    m, value, result = Module(), Signal(signed(width)), Signal(signed(target))
    m.d.comb += result.eq(saturate(value, target))

    async def bench(ctx):
        for number in range(-(1 << (width - 1)), 1 << (width - 1)):
            ctx.set(value, number)
            assert ctx.get(result) == np.clip(number, -(1 << (target - 1)), (1 << (target - 1)) - 1)

    simulate(m, bench)


def test_a_chosen_width_equals_clipping():
    m, value, choice, result, beyond = Module(), Signal(signed(8)), Signal(2), Signal(signed(6)), Signal()
    widths = (4, 6, 5)
    found, clipped = saturate_to(value, {width: choice == number for number, width in enumerate(widths)})
    m.d.comb += [result.eq(found), beyond.eq(clipped)]

    async def bench(ctx):
        for number in range(-128, 128):
            for chosen, width in enumerate(widths):
                ctx.set(value, number)
                ctx.set(choice, chosen)
                expected = np.clip(number, -(1 << (width - 1)), (1 << (width - 1)) - 1)
                assert (ctx.get(result), ctx.get(beyond)) == (expected, expected != number)

    simulate(m, bench)
