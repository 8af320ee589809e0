"""The record packer: a record's beats from the output memory, and how long it takes where all values are there."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.images import cache_image
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.hw.lora.job.record_packer import RecordPacker

MAPPING = InstantftSpec(columns=8).mapping
"""Of LeNet-5."""
VALUES = sum(count * length for count, length in MAPPING.blocks)
VARIATIONS = {
    "base": {},
    "narrow": {"lanes": 16, "columns": 2, "rank": 2},
    "wide": {"columns": 8},
    "vector": {"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False},
}


def pack(settings, raw, count=2, stall=0.0):
    """Beats of records that the packer makes, and those of golden's cache."""
    spec = InstantftSpec(**({"network": "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"} | settings))
    mapping, network, rng = spec.mapping, spec.described, np.random.default_rng(7)
    codec = WordCodec(network) if raw else record_layout(network)
    values = rng.integers(-(1 << 21), 1 << 21, (count, codec.values))
    cache = ForwardCache(network, codec, count)
    cache.records[:] = codec.quantise(values)
    expected = [int.from_bytes(row.tobytes(), "little") for row in cache_image(mapping, cache).reshape(-1, 16)]
    dut, found = RecordPacker(mapping), []
    stages = mapping.forward.stages

    def memory(record):
        """The output memory with a record's values, (depth, columns)."""
        contents, first = np.zeros((mapping.forward.output_depth, mapping.columns), np.int64), 0
        for stage in stages:
            size = stage.channels * stage.cells
            outputs = record[first : first + size].reshape(stage.channels, stage.cells)
            for channel, cells in enumerate(outputs):
                group, column = divmod(channel, mapping.columns)
                begin = stage.output + group * stage.cells
                contents[begin : begin + stage.cells, column] = cells
            first += size
        return contents

    async def engine(ctx):
        """Fill the stages one after the other, for each record again, and answer reads."""
        number, filled = 0, 0
        contents = memory(values[0])
        while True:
            fill = 0
            full = ctx.get(dut.outputs.full)
            if filled < len(stages):
                fill, filled = 1 << filled, filled + 1
            elif not full and number + 1 < count:
                number, filled, contents = number + 1, 0, memory(values[number + 1])
            ctx.set(dut.outputs.filled, fill)
            ports = dut.outputs.enable, dut.outputs.address, dut.outputs.column
            *_, enable, address, column = await ctx.tick().sample(*ports)
            if enable:
                # an idle packer may ask for an address behind the last one
                ctx.set(dut.outputs.value, int(contents[min(address, len(contents) - 1), column]))

    async def take(ctx):
        ctx.set(dut.raw, raw)
        stalls, done = np.random.default_rng(8), 0
        for _ in range(6000):
            ready = stalls.random() >= stall
            ctx.set(dut.o.ready, ready)
            if ready and ctx.get(dut.o.valid):
                found.append(ctx.get(dut.o.payload))
            done += ctx.get(dut.done)
            await ctx.tick()
            if len(found) == len(expected):
                break
        assert done == count

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(engine, background=True)
    simulator.add_testbench(take)
    simulator.run()
    return found, expected


@pytest.mark.parametrize("raw", [0, 1])
@pytest.mark.parametrize("name", VARIATIONS)
def test_records_are_those_of_the_cache(name, raw):
    found, expected = pack(VARIATIONS[name], raw)
    assert found == expected


@pytest.mark.parametrize("raw", [0, 1])
def test_a_stalled_writer_changes_no_beat(raw):
    found, expected = pack({}, raw, stall=0.6)
    assert found == expected


def period(raw):
    """Cycles from one record's last beat to the next one's."""
    packer = RecordPacker(MAPPING)
    ends = []

    async def bench(ctx):
        ctx.set(packer.raw, raw)
        ctx.set(packer.o.ready, 1)
        ctx.set(packer.outputs.filled, (1 << len(MAPPING.forward.stages)) - 1)
        for cycle in range(4 * VALUES):
            if ctx.get(packer.done):
                ends.append(cycle)
            await ctx.tick()

    simulator = Simulator(packer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    first, second, third = ends
    assert third - second == second - first
    return third - second


def test_a_record_in_nf4_takes_the_time_of_its_blocks_and_a_cycle_a_stage():
    blocks = [length for count, length in MAPPING.blocks for _ in range(count)]
    spec = Nf4QuantSpec()
    quantiser = spec.cycles(4 * blocks) - spec.cycles(3 * blocks)
    assert quantiser < 1.01 * VALUES
    assert period(raw=0) == quantiser + len(MAPPING.forward.stages)


def test_a_raw_record_takes_little_more_cycles_than_values():
    assert VALUES <= period(raw=1) < 1.01 * VALUES
