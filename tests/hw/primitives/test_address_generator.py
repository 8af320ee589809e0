"""Address generator: base + index * stride modulo 2**address, after the latency and until the next start."""

import numpy as np
import pytest

from fabtune.hw.primitives.address_generator import AddressGenerator

from ..simulation import simulate

EDGES = [
    (0, 0, 0),
    (1, 1, 1),
    ((1 << 24) - 1, (1 << 16) - 1, (1 << 40) - 1),
    (5, 784, 0x80_8000_0000),
    (1 << 23, 1 << 9, 7),
]
RANDOM = [
    tuple(int(value) for value in np.random.default_rng(seed).integers(0, (1 << 24, 1 << 16, 1 << 40)))
    for seed in range(20)
]


@pytest.mark.parametrize(("gap", "bits"), [(0, 40), (5, 40), (0, 33)])
def test_addresses_come_after_the_latency(gap, bits):
    dut = AddressGenerator(bits)

    async def bench(ctx):
        assert ctx.get(dut.done) == 0
        for index, stride, base in EDGES + RANDOM:
            for port, value in ((dut.index, index), (dut.stride, stride), (dut.base, base), (dut.start, 1)):
                ctx.set(port, value)
            await ctx.tick()
            for port in (dut.index, dut.stride, dut.base, dut.start):
                ctx.set(port, 0)  # sampled with start alone
            for _ in range(dut.LATENCY - 1):
                assert ctx.get(dut.done) == 0
                await ctx.tick()
            for _ in range(gap + 1):
                assert ctx.get(dut.done) == 1
                assert ctx.get(dut.address) == (base + index * stride) % (1 << bits)
                if gap:
                    await ctx.tick()

    simulate(dut, bench)
