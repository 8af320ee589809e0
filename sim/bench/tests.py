"""The cocotb tests of every block."""

from __future__ import annotations

from typing import Any

import cocotb

from .runner import Bench

RESETS = 16
"""Number of random resets in the middle of phases of streams; a script is long, and has a single reset."""
WORDS_OF_A_RESET, LATER = 64, 8
"""Long phases get more resets, one per 64 words in all. Resets after the first `RESETS` come up to 8 times later, and
always in the first phase, the only phase whose words are compared.
"""


@cocotb.test()
async def full_speed(dut: Any) -> None:
    """Streams, memory and host never pause; latency and throughput are checked exactly."""
    bench = await Bench.start(dut, "full speed")
    await bench.run()


@cocotb.test()
async def stalled(dut: Any) -> None:
    """The bench pauses every stream and AXI channel at random, in half of the cycles."""
    bench = await Bench.start(dut, "stalled", stall=0.5)
    await bench.run()


@cocotb.test()
async def filled(dut: Any) -> None:
    """Each phase begins with no output ready until the block is full; an empty block must accept a word."""
    bench = await Bench.start(dut, "filled", fill=True)
    if any(stream["direction"] == "out" for stream in bench.plan["streams"].values()):
        await bench.run()


@cocotb.test()
async def reset_midway(dut: Any) -> None:
    """Resets of the minimal length in the middle of phases, then the complete run."""
    bench = await Bench.start(dut, "reset midway", stall=0.25)
    phases = bench.plan["phases"]
    scripted = any(phase["script"] for phase in phases)
    words = max((count for phase in phases for count in _words(phase)), default=0)
    for number in range(1 if scripted else max(RESETS, words // WORDS_OF_A_RESET)):
        await bench.reset(cycles=bench.plan["reset_cycles"])
        late = number >= RESETS
        phase = phases[0 if scripted or late else number % len(phases)]
        # the outputs of later phases depend on earlier phases, so they are not compared
        known = phase if phase is phases[0] else phase | {"expected": {}}
        await bench.interrupted(known, LATER if late else 1)
    await bench.run()


def _words(phase: dict[str, Any]) -> list[int]:
    """Number of words of each of a phase's streams."""
    return [*map(len, phase["inputs"].values()), *phase["outputs"].values()]
