"""Updater: gradients and parameters rounded and saturated as in golden, a beat a cycle, clipping counted."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q4_12, Format, Rounding, narrow
from fabtune.golden.lora.adapters import BATCH_GRADIENT, NOISE_BITS
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION
from fabtune.hw.lora.backward.update import Updater

from ....small_cores import single_axis
from ...play import play_interface

WIDTH, BEATS, VALUES = 44, 40, 8
UNLIMITED = Format(40, Q4_12.fraction)


def stimulus(scale):
    """Sums and parameters, the first beats at range limits and ties."""
    rng = np.random.default_rng(scale)
    sums = rng.integers(-(1 << scale), 1 << scale, (BEATS, VALUES))
    parameters = rng.integers(Q4_12.minimum, Q4_12.maximum, (BEATS, VALUES), endpoint=True)
    half = 1 << (PRODUCT_FRACTION - BATCH_GRADIENT.fraction - 1)
    sums[0], sums[1] = -(1 << (WIDTH - 1)), (1 << (WIDTH - 1)) - 1
    sums[2] = half * np.array([1, 3, -1, -3, 5, 7, -5, 0])
    parameters[0], parameters[1] = Q4_12.maximum, Q4_12.minimum
    return sums, parameters


@pytest.mark.parametrize(
    ("noise_bits", "scale", "rate", "gap"), single_axis([0, 14], [20, 43], [300, 0, 1, (1 << 17) - 1], [0, 2])
)
def test_it_equals_golden(noise_bits, scale, rate, gap):
    sums, parameters = stimulus(scale)
    drawn = np.random.default_rng(rate).integers(0, 1 << noise_bits, sums.shape)
    drawn[0], drawn[1], drawn[3] = (1 << noise_bits) - 1, 0, (1 << noise_bits) - 1
    rounding = (Rounding.STOCHASTIC,) if noise_bits else (Rounding.HALF_EVEN,)
    given = {"noise": (2 * drawn + 1) << (NOISE_BITS - noise_bits - 1)} if noise_bits else {}
    gradients = narrow(sums, PRODUCT_FRACTION, BATCH_GRADIENT)
    stepped = (parameters << NOISE_BITS) - gradients * rate
    wanted = narrow(stepped, Q4_12.fraction + NOISE_BITS, Q4_12, *rounding, **given)
    wide = Format(40, BATCH_GRADIENT.fraction)
    clipped = np.count_nonzero(gradients != narrow(sums, PRODUCT_FRACTION, wide))
    clipped += np.count_nonzero(wanted != narrow(stepped, Q4_12.fraction + NOISE_BITS, UNLIMITED, *rounding, **given))
    left = drawn.tolist()

    async def body(bench):
        bench.set(rate=rate)
        await bench.tick(Updater.LATENCY)
        for own, old in zip(sums, parameters, strict=True):
            await bench.pulse("valid", sums=own, parameters=old)
            await bench.tick(gap)
        await bench.tick(Updater.LATENCY + 2)

    async def noise(ctx):
        while True:
            ctx.set(dut.noise, left[0] if left else [0] * VALUES)
            if ctx.get(dut.ask):
                left.pop(0)
            await ctx.tick()

    dut = Updater(WIDTH, noise_bits)
    watch = {"done": "o", "clipped": None}
    seen = play_interface(dut, watch=watch, body=body, background=[noise] if noise_bits else [])
    assert seen.words("done") == wanted.tolist()
    assert seen.cycles("done") == [at * (gap + 1) + 2 * Updater.LATENCY for at in range(BEATS)]
    assert sum(seen.words("clipped")) == clipped
