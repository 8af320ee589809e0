"""The bench of cores with AXI buses: memories and a host around them, the protocol judged, the words collected.

Like `bench` it knows no golden model. The memories and the host are those of cocotbext-axi; the streams, and the rules
that a core must keep on its buses, are here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiWriteBus,
)
from cocotbext.axi.sparse_memory import SparseMemory

from .planned import Planned

PERIOD_NS = 4
PAGE = 4096
IDLE_LIMIT = 8192
"""Cycles without a single transfer after which streams count as hung."""
ACCESS_LIMIT = 1024
"""Cycles that an access to a register may take."""
QUIET = 32
"""Cycles after a phase in which a core must have nothing more to say."""


class Channel:
    """A handshake that the core offers: valid is not retracted, and what it offers does not change."""

    def __init__(self, dut: Any, name: str, payload: list[str]) -> None:
        self.name = name
        self._valid, self._ready = getattr(dut, f"{name}valid"), getattr(dut, f"{name}ready")
        self.wires = {wire: getattr(dut, f"{name}{wire}") for wire in payload}
        self._held: dict[str, int] | None = None

    def forget(self) -> None:
        """There was a reset."""
        self._held = None

    def look(self) -> dict[str, int] | None:
        """At a clock edge: what was transferred."""
        if not int(self._valid.value):
            assert self._held is None, f"{self.name}valid fell before it was answered"
            return None
        offer = {name: int(wire.value) for name, wire in self.wires.items()}
        assert self._held in (None, offer), f"{self.name}valid held, but what it offers changed"
        taken = bool(int(self._ready.value))
        self._held = None if taken else offer
        return offer if taken else None


class Manager:
    """The rules of one of the core's memory ports, either half."""

    def __init__(self, dut: Any, prefix: str, read: bool, write: bool) -> None:
        burst = ["addr", "len", "size", "burst"]
        self._addresses = [
            Channel(dut, f"{prefix}_a{half}", burst) for half, there in (("r", read), ("w", write)) if there
        ]
        self._data = Channel(dut, f"{prefix}_w", ["data", "strb", "last"]) if write else None
        self._bytes = len(getattr(dut, f"{prefix}_{'r' if read else 'w'}data")) // 8
        self.channels = [*self._addresses, *([self._data] if self._data else [])]
        self.forget()

    def forget(self) -> None:
        """There was a reset."""
        self._announced: list[int] = []
        self._sent: list[int] = [0]
        for channel in self.channels:
            channel.forget()

    def look(self) -> None:
        """At a clock edge."""
        for channel in self._addresses:
            if burst := channel.look():
                where = f"{channel.name}: {burst['len'] + 1} beats at {burst['addr']:#x}"
                assert 1 << burst["size"] == self._bytes, f"{where}: not of {self._bytes} bytes"
                assert burst["burst"] == 1, f"{where}: not incrementing"
                assert burst["addr"] % self._bytes == 0, f"{where}: not aligned"
                last = burst["addr"] + (burst["len"] + 1) * self._bytes - 1
                assert burst["addr"] // PAGE == last // PAGE, f"{where}: crosses 4 KiB"
                if channel.name.endswith("_aw"):
                    self._announced.append(burst["len"] + 1)
        if self._data and (beat := self._data.look()):
            self._sent[-1] += 1
            if beat["last"]:
                self._sent.append(0)
        while self._announced and len(self._sent) > 1:
            announced, sent = self._announced.pop(0), self._sent.pop(0)
            assert announced == sent, f"a burst of {announced} beats was announced, {sent} came"


class StreamPort:
    """One of the core's streams, moved by the bench."""

    def __init__(self, bench: BusBench, plan: dict[str, Any]) -> None:
        self._bench, self.is_input = bench, plan["direction"] == "in"
        dut = bench.dut
        self._valid, self._ready = getattr(dut, plan["valid"]), getattr(dut, plan["ready"])
        self._wires = [getattr(dut, wire) for wire in plan["wires"]]
        self.start([], 0)

    def start(self, words: list[list[int]], want: int) -> None:
        """Another phase; the pins are at rest."""
        self.words, self.want, self.got = words, want, list[list[int]]()
        self.done, self._active = 0, False
        self._held: list[int] | None = None

    @property
    def left(self) -> int:
        """Transfers still to come in this phase."""
        return (len(self.words) if self.is_input else self.want) - self.done

    def rest(self) -> None:
        """Offer nothing."""
        self._active = False
        for wire in [self._valid, *self._wires] if self.is_input else [self._ready]:
            wire.value = 0

    def look(self) -> bool:
        """At a clock edge: whether a word moved."""
        if self.is_input:
            moved = self._active and bool(int(self._ready.value))
            self._active = self._active and not moved
        else:
            moved = self._look_at_output()
        self.done += moved
        return moved

    def _look_at_output(self) -> bool:
        if not int(self._valid.value):
            assert self._held is None, f"{self._valid._name} fell before its word was taken"
            return False
        word = [int(wire.value) for wire in self._wires]
        assert self._held in (None, word), f"{self._valid._name} held, but its word changed"
        assert self.left > 0, f"{self._valid._name}: a word that nothing had asked for"
        moved = self._active
        self._held = None if moved else word
        self.got += [word] * moved
        return moved

    def drive(self, willing: bool) -> None:
        """After a clock edge: offer a word, or room for one."""
        if not self.is_input:
            self._active = willing
            self._ready.value = int(willing)
        elif not self._active:
            # a word once offered stays on offer
            self._active = willing and self.left > 0
            self._valid.value = int(self._active)
            for wire, value in zip(self._wires, self.words[self.done] if self._active else repeat(0), strict=False):
                wire.value = value


class BusBench(Planned):
    """A core under test, see `Planned`: channels and streams pause on the side of the bench."""

    def __init__(self, dut: Any, name: str, stall: float = 0.0) -> None:
        super().__init__(dut, name, stall)
        self.high: Counter[str] = Counter()
        self.clock, self.reset_wire = (getattr(dut, self.plan[wire]) for wire in ("clock", "reset"))
        self._edge = RisingEdge(self.clock)
        self.memory = SparseMemory(1 << 62)
        self.host: Any = None
        self.ports = {name: StreamPort(self, plan) for name, plan in self.plan["streams"].items()}
        self._managers: list[Manager] = []
        self._answers: list[Channel] = []
        steps = [step for phase in self.plan["phases"] for step in phase["script"]]
        self._counted = sorted({step["at"] for step in steps if step["kind"] == "count"})
        self.reset_wire.value = 1 - self.plan["reset_level"]
        self._rest()
        around = {"reset": self.reset_wire, "reset_active_level": bool(self.plan["reset_level"])}
        for prefix in dict.fromkeys(self.plan["buses"].values()):
            self._surround(prefix, around)

    def _surround(self, prefix: str, around: dict[str, Any]) -> None:
        """A memory or a host for one bus."""
        dut, clock = self.dut, self.clock
        if prefix.startswith("s_axi"):
            self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, prefix), clock, **around)
            self._answers = [Channel(dut, f"{prefix}_b", ["resp"]), Channel(dut, f"{prefix}_r", ["data", "resp"])]
            write, read = self.host.write_if, self.host.read_if
            self._pause(write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
            return
        reads, writes = hasattr(dut, f"{prefix}_araddr"), hasattr(dut, f"{prefix}_awaddr")
        self._managers.append(Manager(dut, prefix, reads, writes))
        if reads:
            ram = AxiRamRead(AxiReadBus.from_prefix(dut, prefix), clock, **around, mem=self.memory)
            self._pause(ram.ar_channel, ram.r_channel)
        if writes:
            ram = AxiRamWrite(AxiWriteBus.from_prefix(dut, prefix), clock, **around, mem=self.memory)
            self._pause(ram.aw_channel, ram.w_channel, ram.b_channel)

    def _pause(self, *channels: Any) -> None:
        for channel in channels if self.stall else ():
            channel.set_pause_generator(self._pauses(random.Random(self.random.random())))

    def _pauses(self, own: random.Random) -> Iterator[bool]:
        while True:
            yield own.random() < self.stall

    async def start(self) -> None:
        """The clock, and the eye that is kept on the buses."""
        Clock(self.clock, PERIOD_NS, "ns").start()
        await self._edge
        cocotb.start_soon(self._watch())

    async def reset(self, cycles: int = 4) -> None:
        """Hold the reset for some cycles, all inputs at rest."""
        self._rest()
        self.reset_wire.value = self.plan["reset_level"]
        await self.wait(cycles)
        self.reset_wire.value = 1 - self.plan["reset_level"]
        await self.wait(2)

    def _rest(self) -> None:
        for wire in self.plan["input_wires"]:
            getattr(self.dut, wire).value = 0
        for port in self.ports.values():
            port.rest()

    async def wait(self, cycles: int) -> None:
        """Let some cycles pass."""
        for _ in range(cycles):
            await self._edge

    async def phase(self, phase: dict[str, Any]) -> dict[str, Any]:
        """One phase: first the streams, then the script."""
        start = self.cycles
        self.high.clear()
        for address, data in phase["memory"].items():
            self.memory[int(address) : int(address) + len(data) // 2] = bytes.fromhex(data)
        for name, port in self.ports.items():
            port.start(phase["inputs"].get(name, []), phase["outputs"].get(name, 0))
        await self._move()
        self.step = 0
        answers = []
        for self.step, step in enumerate(phase["script"]):
            answers += [answer for answer in [await self._step(step)] if answer]
        outputs: dict[str, Any] = {name: port.got for name, port in self.ports.items() if port.got}
        if answers:
            outputs[self.plan["host"]] = answers
        cycles = self.cycles - start
        for _ in range(QUIET):
            await self._edge
            for port in self.ports.values():
                assert not port.look(), f"{self.name}: a word moved after the last"
        for name, (address, count) in phase["kept"].items():
            outputs[name] = [[byte] for byte in self.memory[address : address + count]]
        return {"cycles": cycles, "outputs": outputs}

    async def interrupted(self, phase: dict[str, Any]) -> None:
        """The first part of a phase."""
        step, least, most = phase["midway"]
        self.step = -1
        task = cocotb.start_soon(self.phase(phase))
        while phase["script"] and not phase["inputs"] and self.step < step:
            await self._edge
        await self.wait(self.random.randint(least, most))
        assert not task.done(), f"{self.name}: the phase was over before the reset"
        task.cancel()

    async def _move(self) -> None:
        """All words of all streams."""
        ports = list(self.ports.values())
        idle = 0
        while any(port.left for port in ports):
            for port in ports:
                port.drive((port.left > 0 or not port.is_input) and self.random.random() >= self.stall)
            await self._edge
            moved = [port.look() for port in ports]
            idle = 0 if any(moved) else idle + 1
            waits = {name: port.left for name, port in self.ports.items() if port.left}
            assert idle < IDLE_LIMIT, f"{self.name}: nothing moved for {idle} cycles; still to come: {waits}"
        for port in ports:
            port.rest()

    async def _step(self, step: dict[str, Any]) -> list[int] | None:
        """A step of the script; response and value where it has any."""
        kind, at = step["kind"], step["at"]
        if kind == "write":
            lanes = [lane for lane in range(4) if step["strobe"] >> lane & 1]
            data = step["value"].to_bytes(4, "little")[lanes[0] : lanes[-1] + 1]
            return [int((await self._within(self.host.write(at + lanes[0], data), at)).resp), 0]
        if kind == "read":
            answer = await self._within(self.host.read(at, 4), at)
            compared = sum(0xFF << 8 * lane for lane in range(4) if step["strobe"] >> lane & 1)
            return [int(answer.resp), int.from_bytes(answer.data, "little") & compared]
        wire = getattr(self.dut, at)
        if kind in ("get", "count"):
            await self._edge
            return [0, int(wire.value) if kind == "get" else self.high[at]]
        if kind == "until":
            for _ in range(step["value"]):
                await self._edge
                if int(wire.value):
                    return None
            raise AssertionError(f"{self.name}: {at} is still low after {step['value']} cycles")
        wire.value = step["value"] if kind == "set" else 1
        await self._edge
        if kind == "pulse":
            wire.value = 0
            await self._edge
        return None

    async def _within(self, access: Any, offset: int) -> Any:
        try:
            return await with_timeout(access, ACCESS_LIMIT * PERIOD_NS, "ns")
        except cocotb.triggers.SimTimeoutError:
            raise AssertionError(f"{self.name}: register {offset:#04x} does not answer") from None

    async def _watch(self) -> None:
        """Every cycle: the protocol of all buses."""
        counted = [getattr(self.dut, name) for name in self._counted]
        watched: list[Manager | Channel] = [*self._managers, *self._answers]
        while True:
            await self._edge
            self.cycles += 1
            if int(self.reset_wire.value) == self.plan["reset_level"]:
                for one in watched:
                    one.forget()
                continue
            for one in watched:
                one.look()
            for name, wire in zip(self._counted, counted, strict=True):
                self.high[name] += int(wire.value)


@cocotb.test()
async def full_speed(dut: Any) -> None:
    """Memory, host and streams are never in the way."""
    bench = BusBench(dut, "full speed")
    await bench.start()
    await bench.run()


@cocotb.test()
async def stalled(dut: Any) -> None:
    """Every channel and stream pauses at random."""
    bench = BusBench(dut, "stalled", stall=0.4)
    await bench.start()
    await bench.run()


@cocotb.test()
async def reset_midway(dut: Any) -> None:
    """A reset in the middle of the first phase, then everything from the start."""
    bench = BusBench(dut, "reset midway", stall=0.2)
    await bench.start()
    await bench.reset()
    await bench.interrupted(bench.plan["phases"][0])
    await bench.run()
