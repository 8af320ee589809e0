"""Multiplier array: sums of operands in other formats than a network's."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q4_12, Q8_16, Format, narrow
from fabtune.hw.nn.array_port import OperandFormats
from fabtune.hw.nn.mac import MacArray

from ..simulation import simulate

LANES, COLUMNS, WORDS = 4, 2, 3


@pytest.mark.parametrize(
    "formats", [OperandFormats(), OperandFormats(Format(3, 7), Format(2, 5))], ids=["of a network", "narrow"]
)
def test_sums_across_the_lanes_are_exact_until_they_are_rounded(formats):
    dut, rng = MacArray(LANES, COLUMNS, LANES * WORDS, 1, formats=formats), np.random.default_rng(3)
    x_format, w_format = formats.x, formats.w
    x = rng.integers(x_format.minimum, x_format.maximum, (WORDS, LANES), endpoint=True)
    w = rng.integers(w_format.minimum // 8, w_format.maximum // 8, (WORDS, LANES, COLUMNS), endpoint=True)
    bias = rng.integers(w_format.minimum, w_format.maximum, COLUMNS, endpoint=True)
    sums = np.einsum("nl,nlc->c", x, w) + (bias << x_format.fraction)
    found = []

    async def body(ctx):
        for column in range(COLUMNS):
            ctx.set(dut.bias[column], int(bias[column]))
        for cycle in range(WORDS + dut.latency + 1):
            if ctx.get(dut.port.valid):
                found.append((cycle, [ctx.get(value) for value in dut.port.y]))
            ctx.set(dut.port.enable, cycle < WORDS)
            if cycle < WORDS:
                ctx.set(dut.port.first, cycle == 0)
                ctx.set(dut.port.last, cycle == WORDS - 1)
                for lane in range(LANES):
                    ctx.set(dut.port.x[lane], int(x[cycle, lane]))
                    for column in range(COLUMNS):
                        ctx.set(dut.port.w[lane * COLUMNS + column], int(w[cycle, lane, column]))
            await ctx.tick()

    simulate(dut, body)
    expected = narrow(sums, x_format.fraction + w_format.fraction, x_format)
    assert found == [(WORDS - 1 + dut.latency, [int(value) for value in expected])]


def test_the_formats_of_a_network_are_those_of_activations_and_parameters():
    formats = OperandFormats()
    assert (formats.x, formats.w, formats.fraction) == (Q8_16, Q4_12, 28)
