"""Pooling: maximum of each pool, ReLU, and output addresses."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.activations import Relu
from fabtune.golden.models.layers import Convolution, MaxPool
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array import latency
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.pooling import Pooling

from ..play import play_interface

LATENCY = latency.POOLING
MAPPING = Mapping("pooled", stages_of("pooled", (1, 12, 12), (Convolution(4, 3), MaxPool(2))), columns=4)


def pool(sums, size, relu, gap=0):
    """Outputs with cycle, target and mask, for `sums` (n, columns) in pools of `size`."""

    async def body(bench):
        bench.set(relu=relu)
        for at, own in enumerate(sums):
            ends = {"first": at % size == 0, "last": at % size == size - 1}
            control = {**ends, "target": 8 * (at // size), "mask": 1 + at // size % 15}
            await bench.pulse("valid", sums=own, control=control)
            await bench.tick(gap)
        await bench.tick(LATENCY + 1)

    seen = play_interface(Pooling(MAPPING), watch={"write": ("address", "mask", "o"), "mask": None}, body=body)
    assert seen.cycles("mask") == seen.cycles("write"), "no mask without a write"
    return seen


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("size", [1, 4, 9])
def test_largest_of_a_pool(size, relu, gap):
    rng = np.random.default_rng(size)
    sums = rng.integers(Q8_16.minimum, Q8_16.maximum, (size * 7, 4), endpoint=True)
    sums[:size], sums[size : 2 * size] = Q8_16.minimum, Q8_16.maximum
    expected = sums.reshape(7, size, 4).max(axis=1)
    seen = pool(sums, size, relu, gap)
    outputs = (np.maximum(expected, 0) if relu else expected).tolist()
    assert seen.words("write") == [(8 * at, 1 + at, values) for at, values in enumerate(outputs)]
    ends = [(size * (at + 1) - 1) * (gap + 1) for at in range(7)]
    assert seen.cycles("write") == [end + LATENCY for end in ends]


def test_of_two_pixels_the_larger_sum_is_the_output():
    stages = stages_of("merged", (1, 12, 12), (Convolution(2, 3), Relu(1.5), MaxPool(2)))
    limit, rng = 3 << Q8_16.fraction - 1, np.random.default_rng(4)
    sums = rng.integers(-2 * limit, 2 * limit, (40, 4))
    found = {0: [], 1: []}

    async def body(bench):
        for own in sums.tolist():
            for merged in found:
                control = {"first": 1, "last": 1}
                await bench.pulse("valid", relu=1, limit=limit, merged=merged, sums=own, control=control)
                await bench.tick(LATENCY - 1)
                found[merged].append(bench.get("o"))

    play_interface(Pooling(Mapping("merged", stages, columns=4, pairs="frozen")), body=body)
    kept = sums.clip(0, limit)
    assert found[0] == kept.tolist()
    assert [own[:2] for own in found[1]] == np.maximum(kept[:, :2], kept[:, 2:]).tolist()


def test_outputs_above_the_limit_become_it():
    stages = stages_of("limited", (1, 12, 12), (Convolution(4, 3), Relu(1.5)))
    limit = 3 << Q8_16.fraction - 1

    async def body(bench):
        sums = [-1, limit - 1, limit, limit + 1]
        await bench.pulse("valid", relu=1, limit=limit, sums=sums, control={"first": 1, "last": 1})
        await bench.tick(LATENCY - 1)
        assert bench.get("o") == [0, limit - 1, limit, limit]

    play_interface(Pooling(Mapping("limited", stages, columns=4)), body=body)
