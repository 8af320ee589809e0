"""Memory and register host on a core's AXI buses, from cocotbext-axi, with protocol monitors."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
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
"""Largest number of cycles of a register access."""
OKAY, SLVERR = 0, 2
PERIPHERAL = "s_axi"
"""Name prefix of register buses; all other buses lead to memory."""

_Call = Callable[..., Awaitable[Any]]


class AxiSurroundings:
    """One memory shared by all memory ports, and a host on the register bus.

    `period` is the clock period in ns, `stall` the probability, in each cycle, that the bench pauses a channel.

    Attributes
    ----------
    memory : SparseMemory
        Bytes by address.
    responses : list of (int, int, int)
        First and end address of a range, and the AXI response to accesses there; the first matching range counts.
    monitors : list
        Monitors to `sample` every cycle and to `forget` at a reset.
    """

    def __init__(
        self, dut: Any, test: str, plan: dict[str, Any], period: int, stall: float, rng: random.Random
    ) -> None:
        self._dut, self._test, self._period, self._stall, self._random = dut, test, period, stall, rng
        self.memory = SparseMemory(1 << 62)
        self.responses = list[tuple[int, int, int]]()
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
        write.w_channel.send = self._filled(write.w_channel.send)
        self._pause(write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)

    def _attach_memory(self, prefix: str, around: dict[str, Any]) -> None:
        self.monitors.append(BurstMonitor(self._dut, self._test, prefix))
        if hasattr(self._dut, f"{prefix}_araddr"):
            reads = AxiRamRead(AxiReadBus.from_prefix(self._dut, prefix), **around, mem=self.memory)
            reads._read, reads.r_channel.send = self._answered(reads._read, reads.r_channel.send, "rresp")
            self._pause(reads.ar_channel, reads.r_channel)
        if hasattr(self._dut, f"{prefix}_awaddr"):
            writes = AxiRamWrite(AxiWriteBus.from_prefix(self._dut, prefix), **around, mem=self.memory)
            writes._write, writes.b_channel.send = self._answered(writes._write, writes.b_channel.send, "bresp")
            self._pause(writes.aw_channel, writes.w_channel, writes.b_channel)

    def _filled(self, send: _Call) -> _Call:
        """Register sender that fills unwritten byte lanes with random bits."""
        random_bytes = random.Random(self._random.random())

        async def filled(word: Any) -> None:
            for lane in range(4):
                word.wdata |= 0 if word.wstrb >> lane & 1 else random_bytes.getrandbits(8) << 8 * lane
            await send(word)

        return filled

    def _answered(self, access: _Call, send: _Call, field: str) -> tuple[_Call, _Call]:
        """Memory port that accesses the memory and answers with the response that `responses` configures."""
        response = OKAY

        async def answered(address: int, what: Any) -> Any:
            nonlocal response
            selected = next((code for first, end, code in self.responses if first <= address < end), OKAY)
            response = max(response, selected)  # a write burst has a single response: the worst
            if selected >= SLVERR:
                raise ValueError("refused")  # cocotbext-axi answers anyway, without a write
            return await access(address, what)

        async def sent(answer: Any) -> None:
            nonlocal response
            setattr(answer, field, response)
            response = OKAY
            await send(answer)

        return answered, sent

    def _pause(self, *channels: Any) -> None:
        for channel in channels if self._stall else ():
            channel.set_pause_generator(self._pauses(random.Random(self._random.random())))

    def _pauses(self, rng: random.Random) -> Iterator[bool]:
        while True:
            yield rng.random() < self._stall

    async def write(self, offset: int, value: int, strobe: int) -> list[int]:
        """Write the adjacent register bytes that `strobe` selects; returns [response, 0]."""
        lanes = [lane for lane in range(4) if strobe >> lane & 1]
        data = value.to_bytes(4, "little")[lanes[0] : lanes[-1] + 1]
        answer = await self._within(self._host.write(offset + lanes[0], data), offset)
        return [int(answer.resp), 0]

    async def read(self, offset: int, strobe: int) -> list[int]:
        """Read a register; returns [response, value], bytes outside `strobe` masked to 0."""
        answer = await self._within(self._host.read(offset, 4), offset)
        compared = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
        return [int(answer.resp), int.from_bytes(answer.data, "little") & compared]

    async def _within(self, access: Any, offset: int) -> Any:
        try:
            return await with_timeout(access, ACCESS_LIMIT * self._period, "ns")
        except cocotb.triggers.SimTimeoutError:
            raise AssertionError(f"{self._test}: register {offset:#04x} does not answer") from None
