"""A core that only runs inference: the shell, the memory system and the forward engine, and what connects them.

docs/composing-a-core.md walks through this file.
"""

from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

import numpy as np
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.boards.host.driver import Core
from fabtune.golden.axi.bus import BEAT
from fabtune.golden.block import BusSpec
from fabtune.golden.cores.shell import Address, CoreRegisters, Counter, Setting, signature_of
from fabtune.golden.models.network import Network, deployed
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.images import frozen_image, samples_image
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.axi.bus import Lite
from fabtune.hw.cores.logit_writer import LogitWriter
from fabtune.hw.cores.memory_system import MemorySystem, buses
from fabtune.hw.cores.shell import Check, Control, Shell
from fabtune.hw.nn.forward_engine import ForwardEngine
from fabtune.hw.nn.memories.output_memory import OutputReader


class Command(IntEnum):
    """Codes that `command` takes."""

    LOAD = 1
    INFER = 2


class Error(IntEnum):
    """Codes in `status` of a command that ended early."""

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
class InferenceCoreSpec(BusSpec):
    """Parameters of the core: a network as a line of text, and the size of its array."""

    name: ClassVar[str] = "inference_core"
    summary: ClassVar[str] = "a frozen network behind AXI"
    buses: ClassVar[dict[str, str]] = {
        "bus": "s_axi_control",
        "reader0": "m_axi_gmem0",
        "writer0": "m_axi_gmem0",
    }
    wires: ClassVar[tuple[str, ...]] = ("interrupt",)

    network: str = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
    lanes: int = 16
    columns: int = 2

    @cached_property
    def described(self) -> Network:
        """The network."""
        return deployed(network_from(self.network))

    @cached_property
    def mapping(self) -> Mapping:
        """The network on the array."""
        return Mapping.of(self.described, self.lanes, self.columns)

    @cached_property
    def signature(self) -> int:
        """Value of the register of this name."""
        return signature_of(asdict(self), CORE.map)


class InferenceEngine(wiring.Component):
    """Loads the frozen network, and computes samples one after the other."""

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
        m.d.comb += [memory.stop.eq(self.control.abort), self.control.quiet.eq(memory.quiet)]

        # the logits of a sample, the last one marked
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
        """The commands."""
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


class InferenceCore(wiring.Component):
    """The core: its shell and the engine inside."""

    def __init__(self, spec: InferenceCoreSpec) -> None:
        self.spec = spec
        super().__init__({"bus": In(Lite()), "interrupt": Out(1), **buses(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shell = shell = Shell(CORE, self.spec.signature, self._checks)
        engine = InferenceEngine(self.spec.mapping)
        m.submodules.engine = ResetInserter(shell.clear)(engine)
        wiring.connect(m, wiring.flipped(self.bus), shell.bus)
        wiring.connect(m, shell.control, engine.control)
        for bus in buses(1):
            wiring.connect(m, getattr(engine, bus), wiring.flipped(getattr(self, bus)))
        m.d.comb += self.interrupt.eq(shell.interrupt)
        return m

    def _checks(self, command: Signal, settings: wiring.PureInterface) -> list[Check]:
        """Reasons to refuse a command."""
        infer = command == Command.INFER
        return [Check(infer & (settings.count == 0), Error.ZERO_LENGTH, settings.count)]


def infer(core: Core, spec: InferenceCoreSpec, frozen: list, inputs: np.ndarray) -> np.ndarray:
    """Load a frozen network on the core, and compute the logits of samples: (n, classes) in Q8.16."""
    classes = spec.mapping.stages[-1].channels

    def buffer(image):
        found = core.allocate(image.size)
        found.array[:] = image.reshape(-1)
        found.flush()
        return found

    parameters = buffer(frozen_image(spec.mapping, frozen))
    core.run(Command.LOAD, parameters=parameters.device_address)
    samples = buffer(samples_image(spec.mapping, inputs))
    logits = buffer(np.zeros((len(inputs), -(-4 * classes // BEAT) * BEAT), np.uint8))
    core.run(Command.INFER, samples=samples.device_address, logits=logits.device_address, count=len(inputs))
    logits.invalidate()
    return logits.array.view("<i4").reshape(len(inputs), -1)[:, :classes].astype(np.int64)
