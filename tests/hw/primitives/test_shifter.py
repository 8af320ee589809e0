"""Barrel shifters against `golden.fixed`: every input if the width allows, else edges."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed

from fabtune.golden.fixed import Q8_16, Format, shifted
from fabtune.hw.primitives.shifter import RoundingShifter, shift_left

from ..simulation import simulate


def numbers(width, most):
    """Numbers of all sizes around ties of each shift, and around the ends of the range."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    ties = [(odd << places) + (1 << places >> 1) for places in range(most + 1) for odd in (-3, -2, -1, 0, 1, 2)]
    about = [0, low, high, *ties, *(sign << places for places in range(width - 1) for sign in (-1, 1))]
    values = {value + step for value in about for step in (-1, 0, 1)}
    return sorted(value for value in values if low <= value <= high)


@pytest.mark.parametrize(
    ("width", "most", "target", "step", "least"),
    [
        (6, 0, Format(2, 2), 1, 0),
        (7, 3, Format(2, 3), 1, 0),
        (7, 12, Format(2, 3), 1, 0),
        (7, 3, Format(2, 3), 1, 1),
        (9, 5, Format(2, 3), 1, 3),
        (52, 32, Format(7, 17), 3, 0),
        (44, 31, Q8_16, 5, 0),
        (44, 23, Q8_16, 5, 8),
    ],
)
def test_a_rounding_shift_equals_golden(width, most, target, step, least):
    values = list(range(-(1 << (width - 1)), 1 << (width - 1))) if width < 10 else numbers(width, most)
    cases = [(value, places) for value in values for places in range(least, most + 1)][::step]
    rounded = shifted(*(np.array(column) for column in zip(*cases, strict=True)))
    expected = np.clip(rounded, target.minimum, target.maximum)
    dut = RoundingShifter(width, most, target, least)

    async def bench(ctx):
        for cycle in range(len(cases) + dut.latency):
            if (at := cycle - dut.latency) >= 0:
                wanted = expected[at], expected[at] != rounded[at]
                assert (ctx.get(dut.o), ctx.get(dut.clipped)) == wanted, cases[at]
            value, places = cases[min(cycle, len(cases) - 1)]
            ctx.set(dut.i, value)
            ctx.set(dut.places, places - least)
            await ctx.tick()

    simulate(dut, bench, limit=len(cases) + 100)


@pytest.mark.parametrize("bits", [1, 3])
def test_a_shift_to_the_left_loses_nothing(bits):
    m, value, places = Module(), Signal(signed(4)), Signal(bits)
    result = Signal(signed(4 + (1 << bits) - 1))
    m.d.comb += result.eq(shift_left(value, places))

    async def bench(ctx):
        for number in range(-8, 8):
            for place in range(1 << bits):
                ctx.set(value, number)
                ctx.set(places, place)
                assert ctx.get(result) == number << place

    simulate(m, bench)
