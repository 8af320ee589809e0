"""How long the recorder takes for a record whose values are all there."""

from amaranth.sim import Simulator

from fabtune.golden.cores.instantft import InstantftSpec
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.hw.lora.record_packer import RecordPacker

MAPPING = InstantftSpec(columns=8).mapping
"""Of LeNet-5."""
VALUES = sum(count * length for count, length in MAPPING.blocks)


def period(raw):
    """Cycles from one record's last beat to the next one's."""
    recorder = RecordPacker(MAPPING)
    ends = []

    async def bench(ctx):
        ctx.set(recorder.raw, raw)
        ctx.set(recorder.o.ready, 1)
        ctx.set(recorder.filled, (1 << len(MAPPING.forward.stages)) - 1)
        for cycle in range(4 * VALUES):
            if ctx.get(recorder.done):
                ends.append(cycle)
            await ctx.tick()

    simulator = Simulator(recorder)
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
