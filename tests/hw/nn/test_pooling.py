"""Pooling: the largest sum of each pool, ReLU, and where the outputs go."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.layers import Convolution, MaxPool, Relu
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array import latency
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.pooling import Pooling

LATENCY = latency.POOLING
MAPPING = Mapping("pooled", stages_of("pooled", (1, 12, 12), (Convolution(4, 3), MaxPool(2))), columns=4)


def pool(sums, size, relu, gap=0):
    """Outputs with their cycles, target and mask: `sums` of (n, columns), `size` of them a pool."""
    pooling = Pooling(MAPPING)
    found = []

    async def bench(ctx):
        ctx.set(pooling.relu, relu)
        cycle, at, wait = 0, 0, 0
        while cycle < len(sums) * (gap + 1) + LATENCY + 1:
            ctx.set(pooling.valid, wait == 0 and at < len(sums))
            if wait == 0 and at < len(sums):
                ctx.set(pooling.sums, sums[at].tolist())
                first, last = at % size == 0, at % size == size - 1
                control = {"first": first, "last": last, "target": 8 * (at // size), "mask": 1 + at // size % 15}
                ctx.set(pooling.control, control)
                at, wait = at + 1, gap + 1
            wait = max(wait - 1, 0)
            if ctx.get(pooling.write):
                found.append((cycle, ctx.get(pooling.address), ctx.get(pooling.mask), list(ctx.get(pooling.o))))
            else:
                assert ctx.get(pooling.mask) == 0
            await ctx.tick()
            cycle += 1

    simulator = Simulator(pooling)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("size", [1, 4, 9])
def test_largest_of_a_pool(size, relu, gap):
    rng = np.random.default_rng(size)
    sums = rng.integers(Q8_16.minimum, Q8_16.maximum, (size * 7, 4), endpoint=True)
    sums[:size], sums[size : 2 * size] = Q8_16.minimum, Q8_16.maximum
    expected = sums.reshape(7, size, 4).max(axis=1)
    found = pool(sums, size, relu, gap)
    assert [values for *_, values in found] == (np.maximum(expected, 0) if relu else expected).tolist()
    assert [target for _, target, _, _ in found] == [8 * at for at in range(7)]
    assert [mask for _, _, mask, _ in found] == [1 + at for at in range(7)]
    ends = [(size * (at + 1) - 1) * (gap + 1) for at in range(7)]
    assert [cycle for cycle, *_ in found] == [end + LATENCY for end in ends]


def test_outputs_above_the_limit_become_it():
    stages = stages_of("limited", (1, 12, 12), (Convolution(4, 3), Relu(1.5)))
    pooling = Pooling(Mapping("limited", stages, columns=4))
    limit = 3 << Q8_16.fraction - 1

    async def bench(ctx):
        ctx.set(pooling.relu, 1)
        ctx.set(pooling.limit, limit)
        ctx.set(pooling.valid, 1)
        ctx.set(pooling.sums, [-1, limit - 1, limit, limit + 1])
        ctx.set(pooling.control, {"first": 1, "last": 1})
        await ctx.tick().repeat(LATENCY)
        assert list(ctx.get(pooling.o)) == [0, limit - 1, limit, limit]

    simulator = Simulator(pooling)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
