"""Zeroth-order engine, the trainer inside `zotrain`: forward engine, deltas, generator, loss difference, schedule."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT, reach
from ....golden.cores.zeroth_order.registers import Command, Error
from ....golden.cores.zotrain.registers import CORE
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ...nn.forward.cut import Cut
from ...nn.forward.offset_parameters import OffsetParameters
from ...nn.forward.sides import TwoSides
from ...nn.forward_engine import ForwardEngine
from ...nn.interfaces import Offsets
from ...nn.memories.cut_memory import OwnRows, SharedRows
from ...nn.memories.output_memory import OutputReader
from ...rng.generators import generator_of
from ...zo.deltas.delta_memory import DeltaMemory
from ...zo.deltas.offset_memory import OffsetMemory
from ...zo.deltas.perturbation_numbers import PerturbationNumbers
from ...zo.steps.slope_recorder import SlopeRecorder
from ...zo.steps.state_loader import StateLoader
from ...zo.steps.step_scheduler import StepScheduler
from ...zo.steps.step_updates import StepUpdates
from ..image_reads import Image, ImageReads
from ..logit_writer import LogitWriter
from ..memory_system import MemorySystem, buses
from ..shell import Control
from ..shelled_core import Monitor
from .command_sequences import CommandSequences
from .target_memory import TargetMemory

READS = ("order", "images")
"""Requesters that read, the highest rank first; images are samples, parameters, deltas and states of the generator."""
WRITES = ("records", "logits", "deltas")
"""Requesters that write, the highest rank first."""


def _cut(spec: ZotrainSpec) -> Cut | None:
    """Cut of the forward engine, where there is one: its rows are beside the deltas, or in a memory of their own."""
    forward, rows = spec.mapping.forward, spec.cut_rows
    if not rows:
        return None
    return Cut(forward, SharedRows(forward, rows) if spec.shares_rows else OwnRows(forward, rows))


class ZerothOrderEngine(wiring.Component):
    """Trains all parameters of a network and infers with them, a command of `Command` at a time.

    A step makes the offsets of both sides of a perturbation; the passes begin as soon as the first are there. A sample
    is read once and computed on both sides, stage by stage. When the last sample's loss difference is there,
    the deltas are updated. The samples of the next step come in meanwhile.

    With two parts, the passes of the first one leave their outputs in the forward engine's cut memory, from which those
    of the second one begin, for one perturbation after the other. All updates of a step come at its end.

    Parameters
    ----------
    spec : ZotrainSpec

    Attributes
    ----------
    control : In, `Control`
        The shell. Counters: steps, values clipped, coefficients clipped.
    reader0, writer0 : Out, `Read` and `Write`
        AXI4 port to the memory outside.
    monitor : Out, `Monitor`
        Updates of the deltas.
    """

    def __init__(self, spec: ZotrainSpec) -> None:
        self.spec, self.mapping = spec, spec.mapping
        forward, generator = spec.mapping.forward, spec.source
        self.generator, self.numbers = generator_of(generator), PerturbationNumbers(generator, spec.parts)
        rows = spec.mapping.delta_rows
        offsets = Offsets(forward, self.numbers.n, rows.weight_rows, OffsetMemory.read_latency(rows))
        self.offsets = OffsetMemory(rows, self.numbers, offsets)
        self.engine = ForwardEngine(
            forward,
            parameters=OffsetParameters(forward, offsets),
            sides=TwoSides(forward),
            cut=_cut(spec),
            kept=len(forward.stages) - 1,
        )
        self.reader = OutputReader(forward)
        shared = self.engine.cut.signature if spec.shares_rows else None
        self.deltas = DeltaMemory(rows, self.numbers, shared)
        address = reach(spec.address)
        self.slopes, self.updates = SlopeRecorder(forward.stages[-1].channels, address, spec.loss), StepUpdates()
        self.scheduler = StepScheduler(forward.sample_beats, spec.labels, Error, address)
        self.state = StateLoader(generator)
        self.logits = LogitWriter(spec.layout.logit_beats, address)
        self.targets = TargetMemory(forward) if spec.loss == "mse" else None
        self.memory = MemorySystem(
            READS, WRITES, Error, reader=spec.reader, writer=spec.writer, address=address, bus=spec.address
        )
        ports = {"control": In(Control(CORE, spec.address)), **buses(1, spec.address)}
        super().__init__({**ports, "monitor": Out(Monitor(spec.layout.row_beats))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, engine = self.control, self.engine
        for name in (
            "engine", "reader", "generator", "numbers", "offsets", "deltas", "slopes", "updates", "scheduler", "state",
            "logits", "memory",
        ):  # fmt: skip
            m.submodules[name] = getattr(self, name)
        sequences = CommandSequences(self)
        infer = sequences.infer
        # registered: the command is stable long before they are used
        m.d.sync += [
            infer.eq(control.command == Command.INFER),
            engine.both.eq(control.command == Command.TRAIN),
        ]
        self._perturb(m)
        self._monitor(m)
        self._memory(m)
        images = self._images(m)
        self._results(m, infer)
        if self.targets is not None:
            self._targets(m, self.targets, infer)
        sequences.add(m, images)
        return m

    def _perturb(self, m: Module) -> None:
        """Generator, numbers, deltas, offsets, engine."""
        deltas, generator = self.deltas, self.generator
        m.d.comb += [
            self.numbers.i.eq(generator.o.payload),
            self.numbers.part.eq(deltas.part),
            deltas.numbers.eq(self.numbers.o),
            deltas.valid.eq(generator.o.valid),
            generator.o.ready.eq(deltas.word_done),
            generator.replay.bit.eq(deltas.replay),
            generator.mark.bit.eq(deltas.mark),
        ]
        wiring.connect(m, self.state.load, generator.load)
        wiring.connect(m, deltas.offsets, self.offsets.row)
        wiring.connect(m, self.engine.offsets, self.offsets.offsets)
        if self.spec.shares_rows:
            wiring.connect(m, self.engine.cut, deltas.shared)

    def _monitor(self, m: Module) -> None:
        deltas, monitor = self.deltas, self.monitor
        beats, parts = self.spec.layout.row_beats, self.spec.parts
        written = Cat(deltas.written & (deltas.written_part == part) for part in range(parts))
        padded = Signal(8 * BEAT * beats // parts)
        m.d.comb += [
            padded.eq(Value.cast(deltas.written_row)),
            monitor.valid.eq(Cat(bit.replicate(beats // parts) for bit in written)),
            monitor.beat.eq(deltas.written_word * beats),
            monitor.data.eq(padded.replicate(parts)),
        ]

    def _memory(self, m: Module) -> None:
        """Connect the requesters and the buses."""
        memory, control, scheduler = self.memory, self.control, self.scheduler
        for bus in buses(1):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, scheduler.order_read, memory.order_read)
        wiring.connect(m, self.slopes.write, memory.records_write)
        wiring.connect(m, self.logits.write, memory.logits_write)
        wiring.connect(m, self.deltas.save, memory.deltas_write.beats)
        m.d.comb += [
            scheduler.room.eq(self.engine.sample.room & (1 if self.targets is None else self.targets.room)),
            self.engine.sample.start.eq(scheduler.begin),
            memory.stop.eq(control.abort),
            memory.hold.eq(control.hold),
            control.quiet.eq(memory.quiet),
            control.fault.failed.eq(memory.fault.failed | scheduler.fault.failed),
            control.fault.error.eq(Mux(memory.fault.failed, memory.fault.error, scheduler.fault.error)),
            control.fault.address.eq(Mux(memory.fault.failed, memory.fault.address, scheduler.fault.address)),
            memory.deltas_write.command.payload.address.eq(control.settings.deltas),
            memory.deltas_write.command.payload.beats.eq(self.spec.layout.delta_beats),
        ]
        # a register: the path from the activation memory's writes is long
        m.d.sync += scheduler.done.eq(self.engine.sample.done)

    def _images(self, m: Module) -> ImageReads:
        """Read the image of each command that has one, and samples."""
        control, layout = self.control, self.spec.layout
        settings, engine, deltas, state = control.settings, self.engine, self.deltas, self.state
        frozen_beats = self.mapping.forward.frozen_beats
        images = (
            Image(Command.LOAD, settings.parameters, frozen_beats, engine.load, engine.loaded),
            Image(Command.LOAD_DELTAS, settings.deltas, layout.delta_beats, deltas.load, deltas.loaded),
            Image(Command.TRAIN, settings.state, layout.state_beats, state.beats, state.done),
        )
        reads = ImageReads(images, control.command, self.memory.images_read, self.scheduler.sample_command)
        reads.connect(m, engine.sample.beats)
        return reads

    def _results(self, m: Module, infer: Value) -> None:
        """Logits go to the losses, or to memory."""
        engine, reader, slopes, logits = self.engine, self.reader, self.slopes, self.logits
        wiring.connect(m, engine.outputs, reader.outputs)
        channels = self.mapping.forward.stages[-1].channels
        channel = Signal(range(channels))
        last = channel == channels - 1
        taken = reader.o.valid & reader.o.ready
        with m.If(taken):
            m.d.sync += channel.eq(Mux(last, 0, channel + 1))
        m.d.comb += [
            *(into.i.payload.logit.eq(reader.o.payload) for into in (slopes, logits)),
            *(into.i.payload.last.eq(last) for into in (slopes, logits)),
            slopes.i.valid.eq(reader.o.valid & ~infer),
            logits.i.valid.eq(reader.o.valid & infer),
            reader.o.ready.eq(Mux(infer, logits.i.ready, slopes.i.ready)),
        ]
        label = self.scheduler.label
        if self.targets is not None:
            m.d.comb += label.ready.eq(1)
        else:
            m.d.comb += [
                slopes.labels.label.valid.eq(label.valid & ~infer),
                slopes.labels.label.payload.eq(label.payload),
                label.ready.eq(slopes.labels.label.ready | infer),
            ]

    def _targets(self, m: Module, targets: TargetMemory, infer: Value) -> None:
        """Keep each sample of a step until its losses are known."""
        m.submodules.targets = targets
        beats = self.engine.sample.beats
        wiring.connect(m, targets.o, self.slopes.target)
        m.d.comb += [
            targets.start.eq(self.scheduler.begin & ~infer),
            targets.write.eq(beats.valid & beats.ready & ~infer),
            targets.beat.eq(beats.payload),
        ]
