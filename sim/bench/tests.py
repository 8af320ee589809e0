"""The cocotb tests that every block passes."""

from __future__ import annotations

from typing import Any

import cocotb

from .runner import Bench

RESETS = 16
"""Resets of streams in the middle, at random; a script, which is long, has one."""


@cocotb.test()
async def full_speed(dut: Any) -> None:
    """Streams, memory and host never pause; latency and throughput are exact."""
    bench = await Bench.start(dut, "full speed")
    await bench.run()


@cocotb.test()
async def stalled(dut: Any) -> None:
    """Every stream and AXI channel pauses at random, half of the cycles, on the side of the bench."""
    bench = await Bench.start(dut, "stalled", stall=0.5)
    await bench.run()


@cocotb.test()
async def filled(dut: Any) -> None:
    """No output is ready in each phase, until the block is full; an empty block takes a word all the same."""
    bench = await Bench.start(dut, "filled", fill=True)
    if any(stream["direction"] == "out" for stream in bench.plan["streams"].values()):
        await bench.run()


@cocotb.test()
async def reset_midway(dut: Any) -> None:
    """Resets of a single cycle in the middle of phases, then everything from the start."""
    bench = await Bench.start(dut, "reset midway", stall=0.25)
    phases = bench.plan["phases"]
    scripted = any(phase["script"] for phase in phases)
    for number in range(1 if scripted else RESETS):
        await bench.reset(cycles=1)
        phase = phases[0 if scripted else number % len(phases)]
        # what a later phase gives depends on those before it
        await bench.interrupted(phase if phase is phases[0] else phase | {"expected": {}})
    await bench.run()
