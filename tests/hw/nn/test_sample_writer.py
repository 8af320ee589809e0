"""Sample writer: every value at its address, after the padding and in all row replicas, with stalls."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from fabtune.golden.models.layers import Convolution, Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.images import samples_image
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.sample_writer import SampleWriter, activation_of_byte

from ..memory import willing
from ..play import play_interface
from ..simulation import beats_of, simulate


def mapping(shape, *layers, **options):
    return Mapping("sample", stages_of("sample", shape, layers), **{"lanes": 16, "columns": 4, **options})


MAPPINGS = {
    "replicated rows": mapping((1, 6, 5), Convolution(4, 3)),
    "replicated and padded": mapping((1, 6, 5), Convolution(4, 3, padding=1)),
    "two channels": mapping((2, 4, 5), Convolution(4, 3)),
    "words": mapping((1, 6, 5), Convolution(4, 3), byte_inputs=False),
    "vector": mapping((37,), Linear(8)),
    "vector of words": mapping((10,), Linear(8), byte_inputs=False),
    "vector, wide": mapping((37,), Linear(8), columns=8),
}


def sample_of(one, seed=0):
    low, high = (0, 256) if one.byte_inputs else (-(1 << 23), 1 << 23)
    return np.random.default_rng(seed).integers(low, high, one.network_stages[0].input_shape)


def expected(one, sample, buffer):
    """Activation memory by address: windows of the padded sample, zeros omitted."""
    values = np.where(one.byte_inputs, sample * 257 + (sample >> 7), sample)
    base = buffer * one.sample_values
    layer = one.network_stages[0].layer
    if not isinstance(layer, Convolution):
        return {base + at: int(value) for at, value in enumerate(values.reshape(-1)) if value}
    padded = np.pad(values, ((0, 0), layer.padding[:2], layer.padding[2:]))
    channels, height, width = padded.shape
    rows, pitch, column, _ = one.layout(-1)
    content = {}
    for row, x, channel, replica in np.ndindex(rows, width, channels, one.row_replicas):
        if row + replica < height:
            address = base + row * pitch + x * column + channel * one.row_replicas + replica
            content[address] = int(padded[channel, row + replica, x])
    return {address: value for address, value in content.items() if value}


def written(one, writes):
    """Activation memory by address, from writes (mask, address, values, replicate, value)."""
    pitch, content = one.layout(-1).pitch, {}
    for mask, address, values, replicate, value in writes:
        for element in range(mask.bit_length()):
            if mask >> element & 1:
                place = address + element - (element * pitch if replicate else 0)
                assert place not in content, "written twice"
                content[place] = value if replicate else values[element]
    return {address: value for address, value in content.items() if value}


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("name", MAPPINGS)
def test_each_value_is_written_once_to_its_address(name, stall):
    """Two samples in a row, into the first and, if present, the second buffer."""
    one, begun, count = MAPPINGS[name], [], 0
    samples, dut = [sample_of(one, buffer) for buffer in range(one.sample_buffers)], SampleWriter(one)

    async def body(bench):
        nonlocal count
        for buffer, sample in enumerate(samples):
            await bench.pulse("start", buffer=buffer)
            begun.append(bench.cycle)
            await bench.give("i", beats_of(samples_image(one, sample[None])))
            assert bench.seen.before("done", bench.cycle) == buffer, "not done before its last beat"
            while len(bench.seen["done"]) <= buffer:
                await bench.tick()
            await bench.tick()
            writes = bench.seen.both("write.write", "ready")[count:]
            assert written(one, writes) == expected(one, sample, buffer)
            count += len(writes)

    watch = {"write.write": ("write", "address", "values", "replicate", "value"), "ready": None, "done": None}
    seen = play_interface(dut, watch=watch, body=body, background=[willing(dut.ready, stall)], stall=stall)
    if not stall:
        step = 1 if dut.has_map else min(one.columns, 16 if one.byte_inputs else 4)
        cycles = -(-samples[0].size // step) + one.sample_beats
        assert np.all(np.subtract(seen.cycles("done"), begun) == cycles), "a write a cycle, and a cycle a beat"


def test_a_byte_becomes_the_nearest_number():
    m, byte, number, clock = Module(), Signal(8), Signal(24), Signal()
    m.d.comb += number.eq(activation_of_byte(byte))
    m.d.sync += clock.eq(~clock)

    async def bench(ctx):
        for value in range(256):
            ctx.set(byte, value)
            await ctx.tick()
            assert ctx.get(number) == round(value * 65536 / 255)

    simulate(m, bench)
