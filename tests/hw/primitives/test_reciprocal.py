"""Division by a constant: ties and ends of the range, a number per cycle, at the stated latency."""

import numpy as np
import pytest

from fabtune.golden.fixed import divided
from fabtune.golden.nn.arithmetic.forward import Reciprocal
from fabtune.hw.primitives.reciprocal import ReciprocalDivider

from ..simulation import simulate

LOW, HIGH = -(1 << 23), (1 << 23) - 1


@pytest.mark.parametrize("count", [1, 2, 3, 6, 9, 64, 125, 1000, 4096])
def test_averages(count: int) -> None:
    rng = np.random.default_rng(count)
    quotients = rng.integers(LOW + 1, HIGH, 60)
    near = [quotients * count + step for step in (-1, 0, 1, count // 2 - 1, count // 2, count // 2 + 1)]
    sums = np.concatenate([*near, [LOW * count, HIGH * count]])
    reciprocal = Reciprocal(count)
    dut, found = ReciprocalDivider(reciprocal), []

    async def bench(ctx):
        for cycle in range(len(sums) + reciprocal.latency):
            if cycle < len(sums):
                ctx.set(dut.numerator, int(sums[cycle]) + reciprocal.offset)
            if cycle >= reciprocal.latency:
                found.append(ctx.get(dut.quotient))
            await ctx.tick()

    simulate(dut, bench)
    assert found == divided(sums, count).tolist()
