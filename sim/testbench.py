"""Host and memory for a core in the user's own cocotb test, with fabtune's driver.

A test combines `host_for`, `memory_for` and a function written for a board::

    @cocotb.test()
    async def selftest(dut):
        host = host_for(dut, SPEC, memory_for(dut))
        await host.reset()
        await host.run(selftest_of(SPEC).run)

The driver blocks, as on a board: it runs in its own thread, and the simulation waits while it computes.
"""

from __future__ import annotations

import itertools
import logging
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer

from ..boards.host.driver import Core
from ..golden.axi.regions import ALIGNMENT, Bytes, JobMemory
from ..golden.cores.core import CoreSpec
from ..golden.errors import UserError
from .bench.axi import OKAY, PERIPHERAL, AxiSurroundings

BASE = (1 << 32) - 2 * ALIGNMENT
"""Address of the first buffer: later buffers are above 32 bits."""
PERIOD_NS = 10
LIMIT = 10_000_000
"""Default cycle limit of a command."""
WHOLE_WORD = 0xF
"""Strobes of all four bytes."""
MEMORY_PORT = "m_axi_gmem"
"""Prefix of a memory port, before its number."""
_CORE_PINS = {"clock": "aclk", "reset": "aresetn", "reset_level": 0}

Result = TypeVar("Result")


@dataclass
class BenchBuffer:
    """Buffer in a bench's memory; implements `boards.host.driver.Buffer`.

    `array` is the host copy: `flush` writes it to memory, `invalidate` reads it back.
    """

    memory: BenchMemory = field(repr=False)
    device_address: int
    array: Bytes

    def flush(self) -> None:
        """Write the host copy to memory."""
        self.memory.write(self.device_address, self.array.tobytes())

    def invalidate(self) -> None:
        """Read memory into the host copy."""
        self.array[:] = np.frombuffer(self.memory.read(self.device_address, self.array.size), np.uint8)


class BenchMemory:
    """Memory on all memory ports of a core; implements `boards.host.driver.BufferAllocator`.

    Illegal AXI4 bursts and unstable handshakes fail the test.

    Parameters
    ----------
    dut : handle
        Top module of the core.
    stall : float
        Probability, in each cycle, that a channel pauses.
    seed : int
        Seed of the pauses.

    Attributes
    ----------
    responses : list of (int, int, int)
        First and end address of a range, and the AXI response there: 2 is an error.
    """

    def __init__(self, dut: Any, stall: float = 0.0, seed: int = 0) -> None:
        ports = (f"{MEMORY_PORT}{number}" for number in itertools.count())
        prefixes = [*itertools.takewhile(lambda port: _has(dut, port), ports)]
        if not prefixes:
            raise UserError(f"{dut._name} has no pins {MEMORY_PORT}0_*: give the top module of a core")
        self._around = _surroundings(dut, prefixes, stall, seed)
        self._regions = JobMemory(base=BASE)
        self.responses = self._around.responses

    def allocate(self, size: int) -> BenchBuffer:
        """Buffer of `size` bytes, all 0 in the host copy."""
        return BenchBuffer(self, self._regions.reserve(size), np.zeros(size, np.uint8))

    def read(self, address: int, size: int) -> bytes:
        """Read bytes written by the core."""
        return bytes(self._around.memory[address : address + size])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes for the core."""
        self._around.memory[address : address + len(data)] = data


class BenchHost:
    """Host on a core's register bus: clock, reset, registers, interrupt, and the driver.

    Parameters
    ----------
    dut : handle
        Top module of the core.
    memory : BenchMemory, optional
        Memory of the driver's buffers.
    stall : float
        Probability, in each cycle, that a channel of the register bus pauses.
    seed : int
        Seed of the pauses.
    limit : int
        Cycle limit of a command.

    Attributes
    ----------
    core : Core
        The driver. Its functions block: call them inside a function passed to `run`, not in the test itself.
    """

    def __init__(
        self,
        dut: Any,
        spec: CoreSpec,
        memory: BenchMemory | None = None,
        stall: float = 0.0,
        seed: int = 0,
        limit: int = LIMIT,
    ) -> None:
        (prefix,) = (prefix for prefix in spec.buses.values() if prefix.startswith(PERIPHERAL))
        if not _has(dut, prefix):
            raise UserError(f"{dut._name} has no pins {prefix}_*: give the top module of a core")
        self._dut, self._limit = dut, limit
        self._around = _surroundings(dut, [prefix], stall, seed)
        self.core = Core(spec.registers, self, memory, resume(self.interrupt), address=spec.address)
        self._dut.aresetn.value = 0
        Clock(dut.aclk, PERIOD_NS, "ns").start()

    async def reset(self, cycles: int = 16) -> None:
        """Hold the reset for `cycles`; allowed at any time."""
        self._dut.aresetn.value = 0
        await ClockCycles(self._dut.aclk, cycles)
        self._dut.aresetn.value = 1
        await ClockCycles(self._dut.aclk, 1)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a blocking function, such as `SelfTest.run`, with the driver and further arguments."""
        return await bridge(function)(self.core, *arguments)

    async def interrupt(self) -> None:
        """Wait for the interrupt.

        Raises
        ------
        UserError
            If the interrupt does not come within the cycle limit.
        """
        if int(self._dut.interrupt.value):
            return
        rises, late = RisingEdge(self._dut.interrupt), Timer(self._limit * PERIOD_NS, "ns")
        if await First(rises, late) is late:
            raise UserError(f"no interrupt in {self._limit} cycles")

    def read(self, offset: int) -> int:
        """Read the register at a byte offset; only inside `run`."""
        response, value = resume(self._around.read)(offset, WHOLE_WORD)
        self._check(response, offset)
        return value

    def write(self, offset: int, value: int) -> None:
        """Write the register at a byte offset; only inside `run`."""
        response, _ = resume(self._around.write)(offset, value, WHOLE_WORD)
        self._check(response, offset)

    def _check(self, response: int, offset: int) -> None:
        if response != OKAY:
            raise UserError(f"register {offset:#04x} answers with response {response}")


host_for, memory_for = BenchHost, BenchMemory
"""Host and memory of a core in a cocotb test. A host starts the clock; call `reset` next."""


def _surroundings(dut: Any, prefixes: list[str], stall: float, seed: int) -> AxiSurroundings:
    """Attach cocotbext-axi to buses, with protocol monitors in every cycle out of reset."""
    # cocotbext uses names from before cocotb 2.0, which gives a dozen warnings per test
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")
    plan = _CORE_PINS | {"buses": {prefix: prefix for prefix in prefixes}}
    for prefix in prefixes:
        # a line per burst would dominate the log; tests may set another level
        logging.getLogger(f"cocotb.{dut._name}.{prefix}").setLevel(logging.WARNING)
    around = AxiSurroundings(dut, dut._name, plan, PERIOD_NS, stall, random.Random(seed))
    cocotb.start_soon(_watch(dut, around))
    return around


async def _watch(dut: Any, around: AxiSurroundings) -> None:
    """Sample the monitors at the falling edge, when all wires are settled."""
    while True:
        await FallingEdge(dut.aclk)
        for monitor in around.monitors:
            if int(dut.aresetn.value):
                monitor.sample()
            else:
                monitor.forget()


def _has(dut: Any, prefix: str) -> bool:
    """True if a module has the pins of a bus; memory ports may read, write or both."""
    return any(hasattr(dut, f"{prefix}_{channel}addr") for channel in ("ar", "aw"))
