"""The bench inside the simulator: it feeds a block, collects what comes out, and judges the protocol.

It knows no golden model. A plan (written by `simulator`) says which integers go into which wires and how many
words come out; what came out is written to a file and compared outside, by the code that compares a board's
capture. The clock is moved by hand, inputs change while it is low and are sampled just before it rises, so
that no two simulators can disagree about the order of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.triggers import Timer

from .planned import Planned

HALF_PERIOD_NS = 2
IDLE_LIMIT = 4096
"""Cycles without a single transfer after which a phase counts as hung."""


@dataclass
class Port:
    """One stream or sideband during one phase."""

    plan: dict[str, Any]
    words: list[list[int]]
    want: int = 0
    got: list[list[int]] = field(default_factory=list)
    done: int = 0
    active: bool = False
    held: list[int] | None = None

    @property
    def is_input(self) -> bool:
        """Whether the block reads it."""
        return bool(self.plan["direction"] == "in")

    @property
    def left(self) -> int:
        """Transfers still to come in this phase."""
        return (len(self.words) if self.is_input else self.want) - self.done


class Bench(Planned):
    """A block under test, see `Planned`: a stream pauses on either side of the block."""

    async def reset(self, cycles: int = 2) -> None:
        """Hold the reset for some cycles, all streams idle."""
        for port in self._ports({"inputs": {}, "outputs": {}}).values():
            self._offer(port, active=False)
        self._wire(self.plan["reset"]).value = self.plan["reset_level"]
        for _ in range(cycles):
            await self._low()
            await self._high()
        self._wire(self.plan["reset"]).value = 1 - self.plan["reset_level"]

    async def phase(self, phase: dict[str, Any], stop_after: int | None = None) -> dict[str, Any]:
        """One phase, or its first `stop_after` cycles."""
        ports = self._ports(phase)
        start, idle = self.cycles, 0
        while any(port.left for port in ports.values() if not port.plan["follows"]):
            if stop_after is not None and self.cycles - start >= stop_after:
                break
            midway = any(port.is_input and port.done for port in ports.values())
            for port in ports.values():
                if not port.plan["follows"]:
                    # a sink that wants nothing is ready all the same once the inputs are under way
                    willing = port.left > 0 or (midway and not port.is_input)
                    self._offer(port, active=willing and self.random.random() >= self.stall)
            for port in ports.values():
                if port.plan["follows"] and port.is_input:
                    leader = ports[port.plan["follows"]]
                    self._drive(port, port.words[leader.done] if leader.done < len(port.words) else None)
            await self._low()
            moved = [name for name, port in ports.items() if not port.plan["follows"] and self._moves(port)]
            for port in ports.values():
                if not port.is_input and port.plan["follows"] in moved:
                    port.got.append(self._read(port))
            for name in moved:
                ports[name].done += 1
                assert ports[name].left >= 0, f"{self.name}: {name} gave a word that nothing had asked for"
            await self._high()
            idle = 0 if moved else idle + 1
            waits = {name: port.left for name, port in ports.items() if port.left}
            assert idle < IDLE_LIMIT, f"{self.name}: nothing moved for {idle} cycles; still to come: {waits}"
        cycles = self.cycles - start
        for port in ports.values():
            self._offer(port, active=False)
        if phase["quiet"] and stop_after is None:
            await self._stays_quiet(ports)
        if phase["cycles"] and not self.stall and stop_after is None:
            assert cycles == phase["cycles"], f"{self.name}: {cycles} cycles, the spec says {phase['cycles']}"
        return {
            "cycles": cycles,
            "outputs": {name: port.got for name, port in ports.items() if not port.is_input and port.got},
        }

    async def _stays_quiet(self, ports: dict[str, Port]) -> None:
        """A block that was given nothing more has nothing more to say."""
        for _ in range(16):
            await self._low()
            for name, port in ports.items():
                if port.plan["valid"] and not port.is_input:
                    assert not self._bit(port.plan["valid"]), f"{self.name}: {name} offers a word too many"
            await self._high()

    def _ports(self, phase: dict[str, Any]) -> dict[str, Port]:
        return {
            name: Port(plan, phase["inputs"].get(name, []), phase["outputs"].get(name, 0))
            for name, plan in self.plan["streams"].items()
        }

    def _offer(self, port: Port, active: bool) -> None:
        plan = port.plan
        if plan["follows"]:
            if port.is_input:
                self._drive(port, None)
        elif port.is_input:
            # a word once offered stays on offer
            port.active = active or (port.active and port.left > 0)
            self._wire(plan["valid"]).value = int(port.active)
            self._drive(port, port.words[port.done] if port.active else None)
        else:
            port.active = active
            self._wire(plan["ready"]).value = int(active)

    def _drive(self, port: Port, word: list[int] | None) -> None:
        for index, wire in enumerate(port.plan["wires"]):
            self._wire(wire).value = word[index] if word else 0

    def _moves(self, port: Port) -> bool:
        plan = port.plan
        if port.is_input:
            moved = port.active and self._bit(plan["ready"])
            port.active = port.active and not moved
            return moved
        valid = self._bit(plan["valid"])
        if port.held is not None:
            assert valid, f"{self.name}: {plan['valid']} fell before its word was taken"
        word = self._read(port) if valid and port.want else None
        if port.held is not None:
            assert word == port.held, f"{self.name}: {plan['valid']} held, but its word changed"
        moved = valid and port.active
        port.held = None if moved else word
        if moved and word is not None:
            port.got.append(word)
        return moved

    def _bit(self, wire: str) -> bool:
        return bool(int(self._wire(wire).value))

    def _read(self, port: Port) -> list[int]:
        return [int(self._wire(wire).value) for wire in port.plan["wires"]]

    def _wire(self, name: str) -> Any:
        return getattr(self.dut, name)

    async def _low(self) -> None:
        self._wire(self.plan["clock"]).value = 0
        await Timer(HALF_PERIOD_NS, "ns")

    async def _high(self) -> None:
        self._wire(self.plan["clock"]).value = 1
        self.cycles += 1
        await Timer(HALF_PERIOD_NS, "ns")


@cocotb.test()
async def full_speed(dut: Any) -> None:
    """Every stream moves as fast as the block allows; latency and throughput are exact."""
    await Bench(dut, "full speed").run()


@cocotb.test()
async def stalled(dut: Any) -> None:
    """Both sides pause at random, half of the cycles each."""
    await Bench(dut, "stalled", stall=0.5).run()


@cocotb.test()
async def reset_midway(dut: Any) -> None:
    """A reset in the middle of the first phase, then everything from the start."""
    bench = Bench(dut, "reset midway", stall=0.25)
    first = bench.plan["phases"][0]
    await bench.reset()
    await bench.phase(first, stop_after=7 + bench.random.randrange(50))
    await bench.run()
