"""Sample writer: every value of a sample at its address, behind the padding and in all row replicas, with stalls."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from fabtune.golden.models.layers import Convolution, Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.images import samples_image
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.sample_writer import SampleWriter, activation_of_byte

from ..play import simulate


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
    """Content of the activation memory by address: windows of the padded sample, zeros left out."""
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


async def write_sample(ctx, dut, one, sample, buffer, stall, rng):
    """Give a sample's beats; the writes, applied to a dictionary, and the cycles until `done`."""
    image = samples_image(one, sample[None]).reshape(-1, 16)
    beats = [int.from_bytes(beat.tobytes(), "little") for beat in image]
    pitch, content, valid = one.layout(-1).pitch, {}, False
    ctx.set(dut.buffer, buffer)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    for cycle in range(5000):
        if beats and not valid and rng.random() >= stall:
            valid = True
            ctx.set(dut.i.payload, beats[0])
        ctx.set(dut.i.valid, valid)
        ready = rng.random() >= stall
        ctx.set(dut.ready, ready)
        write = dut.write
        mask, address, done = ctx.get(write.write), ctx.get(write.address), ctx.get(dut.done)
        values = list(ctx.get(write.values))
        for element in range(mask.bit_length()):
            if ready and mask >> element & 1:
                replicate = ctx.get(write.replicate)
                place = address + element - (element * pitch if replicate else 0)
                assert place not in content, "written twice"
                content[place] = ctx.get(write.value) if replicate else values[element]
        taken = (await ctx.tick().sample(dut.i.ready))[2]
        if valid and taken:
            beats.pop(0)
            valid = False
        if done:
            ctx.set(dut.i.valid, 0)
            assert not beats
            return content, cycle + 1
    raise AssertionError("the sample is not finished")


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("name", MAPPINGS)
def test_each_value_is_written_once_to_its_address(name, stall):
    """Two samples in a row, into the first buffer and into the second where there is one."""
    one, rng = MAPPINGS[name], np.random.default_rng(1)
    dut = SampleWriter(one)

    async def bench(ctx):
        for buffer in range(one.sample_buffers):
            sample = sample_of(one, buffer)
            content, cycles = await write_sample(ctx, dut, one, sample, buffer, stall, rng)
            assert {address: value for address, value in content.items() if value} == expected(one, sample, buffer)
            if not stall:
                step = 1 if dut.has_map else min(one.columns, 16 if one.byte_inputs else 4)
                assert cycles == -(-sample.size // step) + one.sample_beats, "a write a cycle, and a cycle a beat"
            await ctx.tick()

    simulate(dut, bench)


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
