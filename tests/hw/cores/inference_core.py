"""A core for inference only: shell, memory system and forward engine, connected.

docs/composing-a-core.md explains this file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from fabtune.boards.host.driver import Core
from fabtune.boards.selftest.job import SelfTest
from fabtune.boards.selftest.played import PlayedSelfTest
from fabtune.golden.axi.bus import BEAT
from fabtune.golden.axi.memories import port_memories
from fabtune.golden.axi.regions import Region
from fabtune.golden.cores.core import Check, SettingValues
from fabtune.golden.cores.golden_core import CoreMemory, GoldenCore
from fabtune.golden.cores.network_core import NetworkCoreSpec
from fabtune.golden.cores.shell import Address, CoreRegisters, Counter, Setting
from fabtune.golden.fixed import Narrower
from fabtune.golden.memories.plan import MemoryShape
from fabtune.golden.nn.arithmetic.forward import run
from fabtune.golden.nn.arithmetic.loss import Loss
from fabtune.golden.nn.arithmetic.products import product_of
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from fabtune.golden.nn.array.images import frozen_image, frozen_of, samples_image, samples_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.nn.array.memories import network_memories
from fabtune.hw.cores.logit_writer import LogitWriter
from fabtune.hw.cores.memory_system import MemorySystem, buses
from fabtune.hw.cores.shell import Control
from fabtune.hw.cores.shelled_core import ShelledCore
from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.memories.output_memory import OutputReader
from fabtune.hw.verilog import emit
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.device import SimulatedDevice
from fabtune.sim.compiled.session import Dram
from fabtune.sim.cores.recorded_phases import RecordedCore
from fabtune.sim.phase import Phase


class Command(IntEnum):
    """Command codes."""

    LOAD = 1
    INFER = 2


class Error(IntEnum):
    """Error codes in `status`."""

    BAD_COMMAND = 1
    BAD_ADDRESS = 2
    ZERO_LENGTH = 3
    READ_SLVERR = 4
    READ_DECERR = 5
    WRITE_SLVERR = 6
    WRITE_DECERR = 7


CORE = CoreRegisters(
    "inference_core",
    Command,
    Error,
    settings=(
        Address("parameters", "byte address of the frozen parameters' image", commands=(Command.LOAD,)),
        Address("samples", "byte address of the samples", commands=(Command.INFER,)),
        Address("logits", "byte address to which logits go, each on a beat of its own", commands=(Command.INFER,)),
        Setting("count", "samples"),
    ),
    counters=(Counter("inferred", "samples of the last command that are computed"),),
)


@dataclass(frozen=True, kw_only=True)
class InferenceCoreSpec(NetworkCoreSpec):
    """Parameters: a network as a line of text, and the array's size."""

    name: ClassVar[str] = "inference_core"
    summary: ClassVar[str] = "a frozen network behind AXI"
    registers: ClassVar[CoreRegisters] = CORE
    buses: ClassVar[dict[str, str]] = {
        "control": "s_axi_control",
        "reader0": "m_axi_gmem0",
        "writer0": "m_axi_gmem0",
    }
    presets: ClassVar[dict[str, dict[str, object]]] = {"tiny": {"lanes": 16, "columns": 2}}

    network: str = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
    byte_inputs: bool = True
    lanes: int = 16
    columns: int = 2
    loss: Loss = "cross_entropy"

    @cached_property
    def forward(self) -> Mapping:
        """The network on the array."""
        return Mapping.of(self.described, self.lanes, self.columns, self.byte_inputs)

    @property
    def labels(self) -> int:
        """Number of classes."""
        return self.described.classes

    @property
    def largest_batch(self) -> int:
        """Samples are computed one by one."""
        return 1

    @property
    def dsps(self) -> int:
        """DSPs of the forward engine."""
        return self.forward.dsps

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Memories for the device's plan of RAM kinds."""
        return (
            *network_memories(self.forward),
            *port_memories(self.reader, self.writer, self.memory_ports),
        )

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        """List the core's own reasons to refuse a command."""
        yield Check((command == Command.INFER) & (settings.count == 0), Error.ZERO_LENGTH, settings.count)


class InferenceEngine(wiring.Component):
    """Loads the frozen network and computes samples one by one."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        super().__init__({"control": In(Control(CORE)), **buses(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.engine = engine = ForwardEngine(self.mapping)
        m.submodules.reader = reader = OutputReader(self.mapping)
        m.submodules.logits = logits = LogitWriter(-(-4 * self.mapping.stages[-1].channels // BEAT))
        m.submodules.memory = memory = MemorySystem(
            reads=("samples", "parameters"), writes=("logits",), errors=Error, buffered=("samples",)
        )
        for bus in buses(1):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, memory.parameters_read.beats, engine.load)
        wiring.connect(m, memory.samples_read.beats, engine.sample.beats)
        wiring.connect(m, engine.outputs, reader.outputs)
        wiring.connect(m, logits.write, memory.logits_write)
        wiring.connect(m, memory.fault, wiring.flipped(self.control.fault))
        m.d.comb += [memory.stop.eq(self.control.abort), memory.hold.eq(self.control.hold)]
        m.d.comb += self.control.quiet.eq(memory.quiet)

        # logits of a sample, the last marked
        channel, written = Signal(range(self.mapping.stages[-1].channels)), Signal()
        last = channel == self.mapping.stages[-1].channels - 1
        m.d.comb += [
            logits.i.valid.eq(reader.o.valid),
            logits.i.payload.logit.eq(reader.o.payload),
            logits.i.payload.last.eq(last),
            reader.o.ready.eq(logits.i.ready),
        ]
        with m.If(logits.i.valid & logits.i.ready):
            m.d.sync += channel.eq(channel + 1)
            with m.If(last):
                m.d.sync += channel.eq(0)
        m.d.sync += written.eq(logits.empty)
        self._sequence(m, engine, memory, logits, written)
        return m

    def _sequence(
        self, m: Module, engine: ForwardEngine, memory: MemorySystem, logits: LogitWriter, written: Signal
    ) -> None:
        """State machine of the commands."""
        control, settings = self.control, self.control.settings
        parameters, samples = memory.parameters_read.command, memory.samples_read.command
        left, pending, address = Signal(32), Signal(32), Signal.like(settings.samples)
        done = logits.i.valid & logits.i.ready & logits.i.payload.last
        m.d.comb += [
            parameters.payload.address.eq(settings.parameters),
            parameters.payload.beats.eq(self.mapping.frozen_beats),
            samples.payload.address.eq(address),
            samples.payload.beats.eq(self.mapping.sample_beats),
            logits.start.eq(control.start),
            logits.address.eq(settings.logits),
            control.counts.inferred.eq(done),
        ]
        m.d.sync += pending.eq(pending - done)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += control.ready.eq(1)
                m.d.sync += [left.eq(settings.count), address.eq(settings.samples), pending.eq(0)]
                with m.If(control.start & (control.command == Command.LOAD)):
                    m.next = "LOAD"
                with m.If(control.start & (control.command == Command.INFER)):
                    m.d.sync += pending.eq(settings.count)
                    m.next = "READ"
            with m.State("LOAD"):
                m.d.comb += parameters.valid.eq(1)
                with m.If(parameters.ready):
                    m.next = "LOADING"
            with m.State("LOADING"), m.If(engine.loaded):
                m.next = "END"
            with m.State("READ"):
                m.d.comb += samples.valid.eq(engine.sample.room)
                with m.If(samples.valid & samples.ready):
                    m.d.comb += engine.sample.start.eq(1)
                    m.d.sync += [left.eq(left - 1), address.eq(address + self.mapping.sample_beats * BEAT)]
                    m.next = "ARRIVE"
            with m.State("ARRIVE"), m.If(engine.sample.done):
                m.next = "READ"
                with m.If(left == 0):
                    m.next = "END"
            with m.State("END"), m.If((pending == 0) & written & memory.settled):
                m.d.comb += control.finished.eq(1)
                m.next = "IDLE"


class InferenceCore(ShelledCore):
    """The engine inside the shell."""

    def __init__(self, spec: InferenceCoreSpec) -> None:
        self.spec = spec
        super().__init__(spec)

    def trainer(self) -> InferenceEngine:
        """Build the engine."""
        return InferenceEngine(self.spec.forward)


def golden(spec: InferenceCoreSpec, frozen: list, inputs: np.ndarray) -> np.ndarray:
    """Logits of samples, (n, classes) in Q8.16."""
    outputs = run(spec.described.stages, frozen, spec.values_of(inputs), product_of("int64"), Narrower())
    return outputs[-1].reshape(len(inputs), -1)


def regions(spec: InferenceCoreSpec, frozen: list, inputs: np.ndarray) -> list[Region]:
    """Regions of a job; a logit takes four bytes, and each sample starts on a beat."""
    beats = len(inputs) * -(-4 * spec.labels // BEAT)
    parameters = Region.containing("parameters", frozen_image(spec.forward, frozen))
    return [
        parameters,
        Region.containing("samples", samples_image(spec.forward, inputs)),
        Region("logits", BEAT * beats),
    ]


def logits_image(spec: InferenceCoreSpec, logits: np.ndarray) -> np.ndarray:
    """Bytes written by the core."""
    rows = np.pad(logits, ((0, 0), (0, -spec.labels % (BEAT // 4))))
    return np.ascontiguousarray(rows, "<i4").view(np.uint8).reshape(-1)


def infer(core: Core, spec: InferenceCoreSpec, frozen: list, inputs: np.ndarray) -> np.ndarray:
    """Load a frozen network on the core and compute logits of samples: (n, classes) in Q8.16."""
    buffers = {region.register: core.place(region) for region in regions(spec, frozen, inputs)}
    addresses = {name: buffer.device_address for name, buffer in buffers.items()}
    core.run(Command.LOAD, parameters=addresses["parameters"])
    core.run(Command.INFER, samples=addresses["samples"], logits=addresses["logits"], count=len(inputs))
    buffers["logits"].invalidate()
    return buffers["logits"].array.view("<i4").reshape(len(inputs), -1)[:, : spec.labels].astype(np.int64)


def simulated(spec: InferenceCoreSpec, dram: Dram | None = None) -> tuple[Core, SimulatedDevice]:
    """Compile the core with Verilator; returns driver and device."""
    program = build(emit(spec).verilog, spec.name, spec.memory_ports)
    device = SimulatedDevice(program, dram, limit=200_000)
    return Core(CORE, registers=device, memory=device, interrupt=device.interrupt, signature=spec.signature), device


def job(spec: InferenceCoreSpec, rng: np.random.Generator, samples: int) -> tuple[list, np.ndarray]:
    """Random network parameters and samples."""
    inputs, *_ = random_samples(spec.described, spec.byte_inputs, samples, rng, spec.labels)
    return random_parameters(spec.described, rng), inputs


class GoldenInference(GoldenCore[InferenceCoreSpec]):
    """Golden model of the core."""

    def reset(self) -> None:
        """Forget the network."""
        self.frozen = None

    def carry_out(self, command: Command, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Execute an accepted command."""
        mapping, count = self.spec.forward, settings["count"]
        if command is Command.LOAD:
            self.frozen = frozen_of(mapping, memory.read(settings["parameters"], mapping.frozen_beats * BEAT))
            return {}
        inputs = samples_of(mapping, memory.read(settings["samples"], count * mapping.sample_beats * BEAT))
        memory.write(settings["logits"], logits_image(self.spec, golden(self.spec, self.frozen, inputs)))
        return {"inferred": count}


GOLDEN = GoldenInference
"""Golden model, found by `golden_core`."""


def selftest(spec: InferenceCoreSpec, seed: int = 1) -> SelfTest:
    """Self-test packaged with the core."""
    frozen, inputs = job(spec, np.random.default_rng(seed), samples=4)
    script = PlayedSelfTest(spec)
    at = {region.register: script.place(region) for region in regions(spec, frozen, inputs)}
    script.play("load the network", Command.LOAD, {"parameters": at["parameters"]})
    settings = {"samples": at["samples"], "logits": at["logits"], "count": len(inputs)}
    script.play("infer", Command.INFER, settings, {"logits": "logits"}, trains=True)
    return script.test


def scenario(spec: InferenceCoreSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Bench phases: one job from reset, recorded from the host driver."""
    core = RecordedCore(spec, patience=100_000)
    infer(core, spec, *job(spec, rng, samples=max(words // 100, 2)))
    return [core.phase(reset=True)]


def main() -> None:
    """Run a job on the simulated core and compare with golden."""
    spec = InferenceCoreSpec()
    core, _ = simulated(spec)
    frozen, inputs = job(spec, np.random.default_rng(0), samples=5)
    wrong = np.count_nonzero(infer(core, spec, frozen, inputs) != golden(spec, frozen, inputs))
    print(f"{wrong} differences, {core.read('inferred')} samples")


if __name__ == "__main__":
    main()
