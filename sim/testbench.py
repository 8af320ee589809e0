"""Host and memory around a core in a cocotb test of the user's own, with fabtune's driver.

A test takes `host_for`, `memory_for` and the function that it would call on a board::

    @cocotb.test()
    async def selftest(dut):
        host = host_for(dut, SPEC, memory_for(dut))
        await host.reset()
        await host.run(selftest_of(SPEC).run)

The driver waits, as on a board: it runs in a thread of its own, and either the thread or the simulation goes on.
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
"""Address of the first buffer: later ones are beyond 32 bits."""
PERIOD_NS = 10
LIMIT = 10_000_000
"""Cycles that a command may take at most, by default."""
WHOLE_WORD = 0xF
"""Strobes of all four bytes of a register."""
MEMORY_PORT = "m_axi_gmem"
"""Prefix of a port to memory, before its number."""
_CORE_PINS = {"clock": "aclk", "reset": "aresetn", "reset_level": 0}

Result = TypeVar("Result")


@dataclass
class BenchBuffer:
    """Buffer in the memory of a bench; implements `boards.host.driver.Buffer`.

    Parameters
    ----------
    memory : BenchMemory
        Memory that it is in.
    device_address : int
        Byte address for the core.
    array : array of uint8
        The host's copy: `flush` writes it to the memory, `invalidate` reads it back.
    """

    memory: BenchMemory = field(repr=False)
    device_address: int
    array: Bytes

    def flush(self) -> None:
        """Write the host's copy to the memory."""
        self.memory.write(self.device_address, self.array.tobytes())

    def invalidate(self) -> None:
        """Read the memory into the host's copy."""
        self.array[:] = np.frombuffer(self.memory.read(self.device_address, self.array.size), np.uint8)


class BenchMemory:
    """Memory behind all memory ports of a core; implements `boards.host.driver.BufferAllocator`.

    Bursts that AXI4 forbids, and words that change before they are taken, fail the test.

    Parameters
    ----------
    dut : handle
        The core's top module.
    stall : float
        Probability that a channel pauses in a cycle.
    seed : int
        Seed of the pauses.

    Attributes
    ----------
    responses : list of (int, int, int)
        Ranges of addresses, first and end, with the AXI response that the core gets there: 2 is an error.
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
        """Get a buffer of so many bytes, all 0 in the host's copy."""
        return BenchBuffer(self, self._regions.reserve(size), np.zeros(size, np.uint8))

    def read(self, address: int, size: int) -> bytes:
        """Read bytes, as the core wrote them."""
        return bytes(self._around.memory[address : address + size])

    def write(self, address: int, data: bytes) -> None:
        """Write bytes, for the core to read."""
        self._around.memory[address : address + len(data)] = data


class BenchHost:
    """Host on the register bus of a core: clock, reset, registers, interrupt, and the driver on them.

    Parameters
    ----------
    dut : handle
        The core's top module.
    spec : CoreSpec
        Spec that it was generated from.
    memory : BenchMemory, optional
        Memory that the driver allocates buffers in.
    stall : float
        Probability that a channel of the register bus pauses in a cycle.
    seed : int
        Seed of the pauses.
    limit : int
        Cycles that a command may take at most.

    Attributes
    ----------
    core : Core
        The driver. Its functions wait, so they are called in what `run` is given, and not in the test itself.
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
        """Hold the reset for so many cycles, at the start and at any time after it."""
        self._dut.aresetn.value = 0
        await ClockCycles(self._dut.aclk, cycles)
        self._dut.aresetn.value = 1
        await ClockCycles(self._dut.aclk, 1)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function with the driver and the arguments, as a program on a board would.

        Parameters
        ----------
        function : callable
            Function that waits, such as `SelfTest.run`, and takes a `Core` first.
        *arguments
            What it takes beside.
        """
        return await bridge(function)(self.core, *arguments)

    async def interrupt(self) -> None:
        """Wait for the interrupt.

        Raises
        ------
        UserError
            If it does not come within the limit.
        """
        if int(self._dut.interrupt.value):
            return
        rises, late = RisingEdge(self._dut.interrupt), Timer(self._limit * PERIOD_NS, "ns")
        if await First(rises, late) is late:
            raise UserError(f"no interrupt in {self._limit} cycles")

    def read(self, offset: int) -> int:
        """Read the register at a byte offset, in what `run` is given."""
        response, value = resume(self._around.read)(offset, WHOLE_WORD)
        self._check(response, offset)
        return value

    def write(self, offset: int, value: int) -> None:
        """Write the register at a byte offset, in what `run` is given."""
        response, _ = resume(self._around.write)(offset, value, WHOLE_WORD)
        self._check(response, offset)

    def _check(self, response: int, offset: int) -> None:
        if response != OKAY:
            raise UserError(f"register {offset:#04x} answers with response {response}")


def host_for(
    dut: Any,
    spec: CoreSpec,
    memory: BenchMemory | None = None,
    stall: float = 0.0,
    seed: int = 0,
    limit: int = LIMIT,
) -> BenchHost:
    """Make the host of a core in a cocotb test; see `BenchHost`. It starts the clock; `reset` comes next."""
    return BenchHost(dut, spec, memory, stall, seed, limit)


def memory_for(dut: Any, stall: float = 0.0, seed: int = 0) -> BenchMemory:
    """Make the memory of a core in a cocotb test; see `BenchMemory`."""
    return BenchMemory(dut, stall, seed)


def _surroundings(dut: Any, prefixes: list[str], stall: float, seed: int) -> AxiSurroundings:
    """Attach cocotbext-axi to buses, and watch what the core drives in every cycle out of reset."""
    # of cocotb's names from before 2.0, a dozen for each test
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"cocotbext\.")
    plan = _CORE_PINS | {"buses": {prefix: prefix for prefix in prefixes}}
    for prefix in prefixes:
        # a line for each burst is more than the rest of a log; a test that wants them sets the level again
        logging.getLogger(f"cocotb.{dut._name}.{prefix}").setLevel(logging.WARNING)
    around = AxiSurroundings(dut, dut._name, plan, PERIOD_NS, stall, random.Random(seed))
    cocotb.start_soon(_watch(dut, around))
    return around


async def _watch(dut: Any, around: AxiSurroundings) -> None:
    """Sample the monitors of what the core drives while the clock is low: all wires are at rest."""
    while True:
        await FallingEdge(dut.aclk)
        for monitor in around.monitors:
            if int(dut.aresetn.value):
                monitor.sample()
            else:
                monitor.forget()


def _has(dut: Any, prefix: str) -> bool:
    """Whether a module has the pins of a bus; a port to memory may read, write or both."""
    return any(hasattr(dut, f"{prefix}_{channel}addr") for channel in ("ar", "aw"))
