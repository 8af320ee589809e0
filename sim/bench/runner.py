"""The bench inside the simulator: it executes a bench plan, drives a block and collects its outputs.

Inputs change at the falling edge and all wires are sampled before the rising edge: simulators then agree on the order
of events.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import cocotb
from cocotb.clock import Clock
from cocotb.task import Task
from cocotb.triggers import Event, FallingEdge, Timer

from .streams import DrivenWire, Sideband, StreamDriver, compare

if TYPE_CHECKING:
    from .axi import AxiSurroundings

PERIOD_NS = 4
SETTLED_NS = 1
"""Delay in ns from the falling edge, at which inputs change, to the sampling of all wires."""
RESET_CYCLES = 4
IDLE_LIMIT = 8192
"""Cycles without a transfer before a phase counts as hung."""
FILLED_SLACK = 64
"""A block counts as full after twice the longest pause at full speed, plus this number of cycles, without a transfer: a
block may pause while it works on stored words, but no longer than at full speed.
"""
FILLED_SLACK_BUSES = 1024
"""As `FILLED_SLACK`, for blocks with AXI buses: a FIFO of up to 512 beats fills while no stream moves."""
QUIET = 32
"""Cycles after a phase in which no stream may offer a word."""


class Bench:
    """A block under test that a bench plan drives; attribute `cycles` counts clock cycles.

    The test name is the key of the results and part of the random seed. `stall` is the probability, in each cycle, that
    the bench pauses a stream or AXI channel. With `fill` the bench takes no outputs at the start of a phase, until the
    inputs stall.
    """

    _longest_pause: ClassVar[int] = 0
    """Longest run of cycles without a transfer in tests without stall and fill."""

    def __init__(self, dut: Any, name: str, stall: float, fill: bool) -> None:
        self.name, self.cycles = name, 0
        self.plan: dict[str, Any] = json.loads(Path(os.environ["FABTUNE_PLAN"]).read_text())
        self._fills, self._filling = fill, False
        self._dut, self._stall, self._random = dut, stall, random.Random(f"{self.plan['seed']} {name}")
        streams = self.plan["streams"].items()
        junk = random.Random(f"{self.plan['seed']} {name} payload")
        self._streams = {key: StreamDriver(dut, name, key, spec, junk) for key, spec in streams if not spec["follows"]}
        self._sidebands = {
            key: Sideband(dut, spec, self._streams[spec["follows"]]) for key, spec in streams if spec["follows"]
        }
        self._around = self._surroundings() if self.plan["buses"] else None
        steps = [step for phase in self.plan["phases"] for step in phase["script"]]
        self._counted = sorted({step["at"] for step in steps if step["kind"] == "count"})
        self._high: Counter[str] = Counter()
        self._levels = dict.fromkeys(self.plan["input_wires"], 0) | {self.plan["reset"]: 1 - self.plan["reset_level"]}
        self._pins = {name: DrivenWire(getattr(dut, name)) for name in self._levels}
        self._awaited: dict[Event, Callable[[], bool]] = {}
        self._step, self._sent = -1, list[Task[list[int] | None]]()

    def _surroundings(self) -> AxiSurroundings:
        from .axi import AxiSurroundings  # slow import, needed for buses only

        return AxiSurroundings(self._dut, self.name, self.plan, PERIOD_NS, self._stall, self._random)

    @classmethod
    async def start(cls, dut: Any, name: str, stall: float = 0.0, fill: bool = False) -> Bench:
        bench = cls(dut, name, stall, fill)
        bench._drive()
        Clock(getattr(dut, bench.plan["clock"]), PERIOD_NS, "ns", impl="gpi").start(start_high=False)
        cocotb.start_soon(bench._clocked())
        await bench.wait(1)
        return bench

    async def run(self) -> None:
        """Run all phases in order and write the output words to the results file."""
        phases = []
        for phase in self.plan["phases"]:
            if phase["reset"]:
                await self.reset()
            phases.append(await self._phase(phase if self.plan["compared"] else phase | {"expected": {}}))
        path = Path(os.environ["FABTUNE_RESULTS"])
        results = json.loads(path.read_text()) if path.exists() else {}
        results[self.name] = {"cycles": self.cycles, "phases": phases}
        path.write_text(json.dumps(results))

    async def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Hold the reset for `cycles`, with all inputs at 0."""
        self._rest()
        self._levels |= dict.fromkeys(self.plan["input_wires"], 0) | {self.plan["reset"]: self.plan["reset_level"]}
        await self.wait(cycles)
        self._levels[self.plan["reset"]] = 1 - self.plan["reset_level"]

    async def interrupted(self, phase: dict[str, Any], times: int = 1) -> None:
        """Run a phase, and cancel it a random time after the start, or after the start of script step ``midway``.

        The range of the time is in ``midway``; its upper end is multiplied by `times`.
        """
        step, least, most = phase["midway"]
        self._step = -1
        task = cocotb.start_soon(self._phase(phase, judged=False))
        while phase["script"] and not phase["inputs"] and self._step < step:
            await self.wait(1)
        await self.wait(self._random.randint(least, times * most))
        assert not (phase["script"] and task.done()), f"{self.name}: the phase was over before the reset"
        tasks: list[Any] = [task, *self._sent]
        for each_task in tasks:
            each_task.cancel()
        self._sent.clear()

    async def wait(self, cycles: int) -> None:
        """Wait some cycles; returns before a rising edge, when all wires are settled."""
        last = self.cycles + cycles
        if cycles:
            await self._until(lambda: self.cycles >= last)

    async def _until(self, met: Callable[[], bool]) -> None:
        """Wait at least a cycle, until a condition holds.

        The clock loop calls the condition every cycle: resuming a cocotb task takes longer than all other work of the
        bench.
        """
        event = Event()
        self._awaited[event] = met
        try:
            await event.wait()
        finally:
            self._awaited.pop(event, None)

    async def _clocked(self) -> None:
        """Every cycle: drive, wait for settled wires, sample."""
        counted = {name: getattr(self._dut, name) for name in self._counted}
        monitors = self._around.monitors if self._around else []
        falls, settled = FallingEdge(getattr(self._dut, self.plan["clock"])), Timer(SETTLED_NS, "ns")
        self._moved = False
        while True:
            await falls
            self._drive()
            await settled
            self.cycles += 1
            if self._levels[self.plan["reset"]] == self.plan["reset_level"]:
                for monitor in monitors:
                    monitor.forget()
            else:
                for monitor in monitors:
                    monitor.sample()
                moved = {key: stream.sample() for key, stream in self._streams.items()}
                for key, sideband in self._sidebands.items():
                    sideband.sample(moved[self.plan["streams"][key]["follows"]])
                self._moved = any(moved.values())
                for name, wire in counted.items():
                    self._high[name] += int(wire.value)
            for event, met in [*self._awaited.items()]:
                if met():
                    del self._awaited[event]
                    event.set()

    def _drive(self) -> None:
        inputs = [stream for stream in self._streams.values() if stream.is_input]
        for stream in inputs:
            stream.drive(stream.left > 0 and self._random.random() >= self._stall)
        under_way = any(stream.under_way for stream in inputs)
        for stream in self._streams.values():
            if not stream.is_input:
                # a sink that expects no words is ready too, once the inputs have begun
                willing = (stream.left > 0 or under_way) and not self._filling
                stream.drive(willing and self._random.random() >= self._stall)
        for sideband in self._sidebands.values():
            sideband.drive()
        for wire, level in self._levels.items():
            self._pins[wire].drive(level)

    def _rest(self) -> None:
        for stream in self._streams.values():
            stream.start([], 0)
        for sideband in self._sidebands.values():
            sideband.start([])

    async def _phase(self, phase: dict[str, Any], judged: bool = True) -> dict[str, Any]:
        """Run a phase, first the streams, then the script; returns cycles and outputs."""
        start = self.cycles
        self._high.clear()
        for address, data in phase["memory"].items():
            self._memory[int(address) : int(address) + len(data) // 2] = bytes.fromhex(data)
        if self._around:
            self._around.responses = phase["responses"]
        for name, stream in self._streams.items():
            expected = phase["expected"].get(name, [])
            stream.start(phase["inputs"].get(name, []), phase["outputs"].get(name, 0), expected)
        for name, sideband in self._sidebands.items():
            sideband.start(phase["inputs"].get(name, []))
        if self._fills:
            await self._fill(phase["inputs"])
        await self._all_words()
        cycles = self.cycles - start
        if judged and phase["cycles"] and not self._stall and not self._fills:
            assert cycles == phase["cycles"], f"{self.name}: {cycles} cycles, the spec says {phase['cycles']}"
        drivers: dict[str, StreamDriver | Sideband] = {**self._streams, **self._sidebands}
        outputs = {name: driver.got for name, driver in drivers.items() if driver.got}
        self._rest()
        if answers := await self._script(phase["script"], phase["expected"].get(self.plan["host"], [])):
            outputs[self.plan["host"]] = answers
        if phase["script"]:
            cycles = self.cycles - start
        if phase["quiet"] or self._around:
            await self._stays_quiet()
        for name, (address, count) in phase["kept"].items():
            outputs[name] = [[byte] for byte in self._memory[address : address + count]]
        for name, expected in phase["expected"].items():
            for number, word in enumerate(outputs.get(name, [])):
                compare(self.name, name, number, word, expected)
        return {"cycles": cycles, "outputs": outputs}

    @property
    def _memory(self) -> Any:
        assert self._around, f"{self.name}: there is no bus to a memory"
        return self._around.memory

    async def _fill(self, inputs: dict[str, Any]) -> None:
        """Offer inputs and take no outputs until the block is full; a block must accept at least one word."""
        self._filling, idle = True, 0
        limit = 2 * Bench._longest_pause + (FILLED_SLACK_BUSES if self._around else FILLED_SLACK)

        def full() -> bool:
            nonlocal idle
            idle = 0 if self._moved else idle + 1
            return idle >= limit

        await self._until(full)
        self._filling = False
        driven = [stream for name, stream in self._streams.items() if inputs.get(name)]
        taken = any(stream.done for stream in driven)
        assert taken or not driven, f"{self.name}: no word is taken while no output is ready"

    async def _all_words(self) -> None:
        """Run the streams until all words of the phase have moved."""
        idle, streams, paced = 0, [*self._streams.values()], not self._stall and not self._fills

        def over() -> bool:
            nonlocal idle
            idle = 0 if self._moved else idle + 1
            if paced:
                Bench._longest_pause = max(Bench._longest_pause, idle)
            return idle >= IDLE_LIMIT or not any(stream.left for stream in streams)

        if any(stream.left for stream in streams):
            await self._until(over)
        waits = {name: stream.left for name, stream in self._streams.items() if stream.left}
        assert not waits, f"{self.name}: nothing moved for {idle} cycles; still to come: {waits}"

    async def _stays_quiet(self) -> None:
        for _ in range(QUIET):
            await self.wait(1)
            for name, stream in self._streams.items():
                assert not stream.offers, f"{self.name}: {name} offers a word too many"

    async def _script(self, steps: list[dict[str, Any]], expected: list[list[int]]) -> list[list[int]]:
        """Answers, [response, value], of the steps that have an answer."""
        answers = list[list[int]]()
        for self._step, step in enumerate(steps):
            self._sent.append(cocotb.start_soon(self._do(step)))
            while self._sent and not step["early"]:
                if (answer := await self._sent[0]) is not None:
                    compare(self.name, self.plan["host"], len(answers), answer, expected)
                    answers.append(answer)
                del self._sent[0]
        return answers

    async def _do(self, step: dict[str, Any]) -> list[int] | None:
        kind, at, value = step["kind"], step["at"], step["value"]
        if kind in ("write", "read"):
            assert self._around, f"{self.name}: there is no bus to registers"
            if kind == "read":
                return await self._around.read(at, step["strobe"])
            return await self._around.write(at, value, step["strobe"])
        wire = getattr(self._dut, at)
        if kind in ("get", "count"):
            await self.wait(1)
            return [0, int(wire.value) if kind == "get" else self._high[at]]
        if kind == "until":
            last = self.cycles + value
            await self._until(lambda: bool(int(wire.value)) or self.cycles >= last)
            assert int(wire.value), f"{self.name}: {at} is still low after {value} cycles"
            return None
        self._levels[at] = value if kind == "set" else 1
        await self.wait(1)
        if kind == "pulse":
            self._levels[at] = 0
            await self.wait(1)
        return None
