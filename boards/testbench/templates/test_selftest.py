"""Tests of @CORE@ in cocotb. `make` runs those of all files test_*.py: add your own here, or in a file beside it."""

from pathlib import Path

import cocotb

from fabtune.boards.packaging import selftest_of
from fabtune.golden.spec_file import load_core
from fabtune.sim.testbench import host_for, memory_for

SPEC = load_core(Path(__file__).parents[1])


@cocotb.test()
async def full_speed(dut):
    """The core's self-test: bytes and counters after each command are golden's."""
    host = host_for(dut, SPEC, memory_for(dut))
    await host.reset()
    await host.run(selftest_of(SPEC).run)


@cocotb.test()
async def stalled(dut):
    """The same with a host and a memory that pause at random, in half of the cycles."""
    host = host_for(dut, SPEC, memory_for(dut, stall=0.5), stall=0.5)
    await host.reset()
    await host.run(selftest_of(SPEC).run)
