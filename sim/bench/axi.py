"""Memories and a host around a core's AXI buses: those of cocotbext-axi, with the monitors of what the core drives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.triggers import with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiWriteBus,
)
from cocotbext.axi.sparse_memory import SparseMemory

from .monitors import BurstMonitor, HandshakeMonitor, response_monitors

ACCESS_LIMIT = 1024
"""Cycles that an access to a register may take."""
PERIPHERAL = "s_axi"
"""Prefix of a bus on which the core is accessed; all others lead to memory."""


class AxiSurroundings:
    """One memory behind all memory ports, and a host on the register bus.

    Parameters
    ----------
    dut : handle
        The top module.
    test : str
        Name of the test, for messages.
    plan : dict
        The bench plan.
    period : int
        Nanoseconds of a cycle.
    stall : float
        Probability that a channel pauses in a cycle, on this side.
    rng : Random
        Source of the pauses.

    Attributes
    ----------
    memory : SparseMemory
        Bytes by address.
    monitors : list
        What must `sample` every cycle and `forget` at a reset.
    """

    def __init__(
        self, dut: Any, test: str, plan: dict[str, Any], period: int, stall: float, rng: random.Random
    ) -> None:
        self._dut, self._test, self._period, self._stall, self._random = dut, test, period, stall, rng
        self.memory = SparseMemory(1 << 62)
        self.monitors: list[BurstMonitor | HandshakeMonitor] = []
        self._host: Any = None
        clock, reset = getattr(dut, plan["clock"]), getattr(dut, plan["reset"])
        around = {"clock": clock, "reset": reset, "reset_active_level": bool(plan["reset_level"])}
        for prefix in dict.fromkeys(plan["buses"].values()):
            if prefix.startswith(PERIPHERAL):
                self._attach_host(prefix, around)
            else:
                self._attach_memory(prefix, around)

    def _attach_host(self, prefix: str, around: dict[str, Any]) -> None:
        self._host = AxiLiteMaster(AxiLiteBus.from_prefix(self._dut, prefix), **around)
        self.monitors += response_monitors(self._dut, self._test, prefix)
        write, read = self._host.write_if, self._host.read_if
        self._pause(write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)

    def _attach_memory(self, prefix: str, around: dict[str, Any]) -> None:
        self.monitors.append(BurstMonitor(self._dut, self._test, prefix))
        if hasattr(self._dut, f"{prefix}_araddr"):
            reads = AxiRamRead(AxiReadBus.from_prefix(self._dut, prefix), **around, mem=self.memory)
            self._pause(reads.ar_channel, reads.r_channel)
        if hasattr(self._dut, f"{prefix}_awaddr"):
            writes = AxiRamWrite(AxiWriteBus.from_prefix(self._dut, prefix), **around, mem=self.memory)
            self._pause(writes.aw_channel, writes.w_channel, writes.b_channel)

    def _pause(self, *channels: Any) -> None:
        for channel in channels if self._stall else ():
            channel.set_pause_generator(self._pauses(random.Random(self._random.random())))

    def _pauses(self, own: random.Random) -> Iterator[bool]:
        while True:
            yield own.random() < self._stall

    async def write(self, offset: int, value: int, strobe: int) -> list[int]:
        """Write a register, bytes by `strobe`, neighbours; returns the response, and 0 for the value."""
        lanes = [lane for lane in range(4) if strobe >> lane & 1]
        data = value.to_bytes(4, "little")[lanes[0] : lanes[-1] + 1]
        answer = await self._within(self._host.write(offset + lanes[0], data), offset)
        return [int(answer.resp), 0]

    async def read(self, offset: int, strobe: int) -> list[int]:
        """Read a register: response and value; bytes that are not in `strobe` are not compared, and 0."""
        answer = await self._within(self._host.read(offset, 4), offset)
        compared = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
        return [int(answer.resp), int.from_bytes(answer.data, "little") & compared]

    async def _within(self, access: Any, offset: int) -> Any:
        try:
            return await with_timeout(access, ACCESS_LIMIT * self._period, "ns")
        except cocotb.triggers.SimTimeoutError:
            raise AssertionError(f"{self._test}: register {offset:#04x} does not answer") from None
