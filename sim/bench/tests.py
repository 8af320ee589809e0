"""The cocotb tests that every block passes."""

from __future__ import annotations

from typing import Any

import cocotb

from .runner import Bench

RESETS = 16
"""Resets of streams in the middle, at random; a script, which is long, has one."""
WORDS_OF_A_RESET, LATER = 64, 8
"""In long phases there is one for so many words; those behind the first ones come up to so many times later, in
the first phase, whose words are compared."""


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
    """Resets as short as they may be, in the middle of phases, then everything from the start."""
    bench = await Bench.start(dut, "reset midway", stall=0.25)
    phases = bench.plan["phases"]
    scripted = any(phase["script"] for phase in phases)
    words = max((count for phase in phases for count in _words(phase)), default=0)
    for number in range(1 if scripted else max(RESETS, words // WORDS_OF_A_RESET)):
        await bench.reset(cycles=bench.plan["reset_cycles"])
        late = number >= RESETS
        phase = phases[0 if scripted or late else number % len(phases)]
        # what a later phase gives depends on those before it
        known = phase if phase is phases[0] else phase | {"expected": {}}
        await bench.interrupted(known, LATER if late else 1)
    await bench.run()


def _words(phase: dict[str, Any]) -> list[int]:
    """Words of each of a phase's streams."""
    return [*map(len, phase["inputs"].values()), *phase["outputs"].values()]
