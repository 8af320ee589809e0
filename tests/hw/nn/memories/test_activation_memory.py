"""Activation memory: words at any address, runs of adjacent values, one value in several rows."""

import numpy as np
import pytest

from fabtune.golden.models.layers import Convolution, Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array import latency
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.memories.activation_memory import ActivationBanks

from ...simulation import simulate

PLAIN = Mapping("plain", stages_of("plain", (60,), (Linear(8),)), lanes=16, columns=4)
REPLICATED = Mapping("rows", stages_of("rows", (1, 8, 8), (Convolution(4, 3),)), lanes=16, columns=4)


def values(count):
    return np.random.default_rng(count).integers(-(1 << 23), 1 << 23, count)


async def write_run(ctx, dut, address, run, mask=None):
    """Write adjacent values in one cycle."""
    count = dut.write.values.shape().length
    ctx.set(dut.write.address, address)
    ctx.set(dut.write.values, [*run, *[0] * (count - len(run))])
    ctx.set(dut.write.write, (1 << len(run)) - 1 if mask is None else mask)
    ctx.set(dut.write.replicate, 0)
    await ctx.tick()
    ctx.set(dut.write.write, 0)


def aligned(word, odd):
    """Lanes in order: with `odd`, lane i is at i + 1."""
    return [word[(lane + odd) % len(word)] for lane in range(len(word))]


async def fill(ctx, dut, contents, columns):
    for first in range(0, len(contents) - columns + 1, columns):
        await write_run(ctx, dut, first, contents[first : first + columns].tolist())
    await ctx.tick().repeat(latency.ACTIVATION_WRITE)


def test_a_word_is_read_at_any_address_one_a_cycle():
    dut = ActivationBanks(PLAIN)
    contents = values(PLAIN.activation_values // 4 * 4)

    async def bench(ctx):
        await fill(ctx, dut, contents, 4)
        addresses = list(range(len(contents) - 16))
        for cycle in range(len(addresses) + dut.LATENCY):
            if cycle >= dut.LATENCY:
                at = addresses[cycle - dut.LATENCY]
                assert aligned(list(ctx.get(dut.word)), ctx.get(dut.odd)) == contents[at : at + 16].tolist()
            ctx.set(dut.address, addresses[min(cycle, len(addresses) - 1)])
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("mask", [0b1111, 0b0001, 0b0110, 0b1000])
@pytest.mark.parametrize("address", [0, 3, 5, 6, 7, 13])
def test_a_run_begins_anywhere_and_stores_the_elements_of_its_mask(address, mask):
    dut = ActivationBanks(PLAIN)
    contents, run = values(32), [11, 22, 33, 44]
    wanted = [
        run[at - address] if 0 <= at - address < 4 and mask >> (at - address) & 1 else int(old)
        for at, old in enumerate(contents)
    ]

    async def bench(ctx):
        await fill(ctx, dut, contents, 4)
        await write_run(ctx, dut, address, run, mask)
        await ctx.tick().repeat(latency.ACTIVATION_WRITE)
        for first in range(0, 32, 16):
            ctx.set(dut.address, first)
            await ctx.tick().repeat(dut.LATENCY)
            assert aligned(list(ctx.get(dut.word)), ctx.get(dut.odd)) == wanted[first : first + 16]

    simulate(dut, bench)


@pytest.mark.parametrize("mask", [0b111, 0b011, 0b110])
def test_a_replicated_value_goes_to_the_same_column_of_several_rows(mask):
    dut = ActivationBanks(REPLICATED)
    pitch = REPLICATED.layout(-1).pitch
    assert REPLICATED.row_replicas == 3
    address = 3 * pitch + 5
    wanted = {address + at - at * pitch: 77 if mask >> at & 1 else 0 for at in range(3)}

    async def bench(ctx):
        ctx.set(dut.write.address, address)
        ctx.set(dut.write.replicate, 1)
        ctx.set(dut.write.value, 77)
        ctx.set(dut.write.write, mask)
        await ctx.tick()
        ctx.set(dut.write.write, 0)
        await ctx.tick().repeat(latency.ACTIVATION_WRITE)
        for place, value in wanted.items():
            ctx.set(dut.address, place)
            await ctx.tick().repeat(dut.LATENCY)
            word = aligned(list(ctx.get(dut.word)), ctx.get(dut.odd))
            assert word[0] == value
            assert word[3:] == [0] * 13, "no other column is written"

    simulate(dut, bench)
