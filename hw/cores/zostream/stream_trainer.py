"""Stream trainer, all of `zostream` but the shell and the engine: steps, passes, deltas, losses, memory ports."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import BEAT, BEAT_COUNT_BITS, reach
from ....golden.cores.zostream.registers import CORE, Command, Error
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.zo.memory_layout import WORDS
from ...axi.memory_port import OFFSET_BITS
from ...axi.read_interleave import ReadInterleave
from ...primitives.fifo import Fifo
from ...stream.engine.engine_port import EnginePort
from ...stream.machine.program_sequencer import ProgramSequencer
from ...zo.steps.slope_recorder import SlopeRecorder
from ...zo.steps.step_updates import StepUpdates
from ..image_reads import Image, ImageReads
from ..logit_writer import LogitWriter
from ..memory_system import MemorySystem, buses
from ..shell import Control
from ..shelled_core import Monitor
from .command_sequences import CommandSequences
from .logit_reader import RESULT, LogitReader
from .pass_memory import PassMemory
from .perturbed_deltas import SHOWN, PerturbedDeltas
from .program_loader import KEPT_BITS, ProgramLoader
from .sample_reads import SampleReads
from .sentence_scheduler import SentenceScheduler

READS = ("order", "images", "corrections", "stream")
"""Requesters that read, the highest rank first; images are samples, programs, deltas and states of the generator."""
WRITES = ("records", "logits", "deltas")
"""Requesters that write, the highest rank first."""
MONITOR = Monitor(1, operations=True)


class StreamTrainer(wiring.Component):
    """Trains a transformer and infers with it, a command of `Command` at a time, pass by pass through an engine.

    A step makes its perturbation, then passes: as many whole sentences as both sides of them have room. The samples of
    a pass are read, the engine runs the program, and the logits of both sides of each sentence go to the losses. Behind
    the last pass the deltas move.

    Parameters
    ----------
    spec : ZostreamSpec

    Attributes
    ----------
    control : In, `Control`
        The shell.
    reader0, writer0, reader1, writer1 : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    engine : Out, `EnginePort`
    monitor : Out, `Monitor`
        Updates of the deltas, and the operation at work.
    """

    def __init__(self, spec: ZostreamSpec) -> None:
        self.spec = spec
        address, tokens, classes = reach(spec.address), spec.tokens, spec.classes
        chunks = ChunkLayout(spec.lanes, spec.columns, spec.rows, spec.wide_rows)
        self.sequencer = ProgramSequencer(spec.sequencer)
        self.program = ProgramLoader(spec.sequencer, Error, classes, spec.times)
        self.deltas = PerturbedDeltas(spec.offsets)
        self.scheduler = SentenceScheduler(tokens, Error, address)
        self.passes, self.samples = PassMemory(tokens, address), SampleReads(tokens, address)
        self.reader = LogitReader(chunks, tokens, (1 << KEPT_BITS) - 1)
        self.slopes, self.updates = SlopeRecorder(classes, address), StepUpdates()
        self.logits = LogitWriter(address=address, logit=RESULT)
        self.memory = MemorySystem(
            READS,
            WRITES,
            Error,
            spread=("stream",),
            ports=spec.ports,
            reader=spec.reader,
            writer=spec.writer,
            address=address,
            bus=spec.address,
        )
        engine = EnginePort(chunks, spec.sequencer, spec.offsets, address)
        self._state_beats = -(-spec.generator.state_bits // (8 * BEAT))
        self._delta_beats = Signal(BEAT_COUNT_BITS)
        super().__init__(
            {
                "control": In(Control(CORE, spec.address)),
                **buses(spec.ports, spec.address),
                "engine": Out(engine),
                "monitor": Out(MONITOR),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in (
            "sequencer", "program", "deltas", "scheduler", "passes", "samples", "reader", "slopes", "updates", "logits",
            "memory",
        ):  # fmt: skip
            m.submodules[name] = getattr(self, name)
        sequences = CommandSequences(self)
        self._program(m)
        self._passes(m, sequences)
        self._results(m, sequences)
        self._memory(m, sequences)
        sequences.add(m, self._images(m, sequences))
        return m

    def _program(self, m: Module) -> None:
        """Connect the program and the deltas with the engine, and show the deltas."""
        program, sequencer, engine = self.program, self.sequencer, self.engine
        wiring.connect(m, program.command, sequencer.command)
        wiring.connect(m, sequencer.status, program.status)
        wiring.connect(m, sequencer.o, program.o)
        wiring.connect(m, program.instruction, wiring.flipped(engine.instruction))
        wiring.connect(m, wiring.flipped(engine.request), self.deltas.request)
        wiring.connect(m, self.deltas.offsets, wiring.flipped(engine.offsets))
        m.d.comb += [
            program.beats.eq(self.control.settings.program_beats),
            *(getattr(self.monitor, name).eq(getattr(self.deltas, name)) for name in SHOWN),
            # deltas that are loaded or cleared are another program's
            self.monitor.valid.eq(self.deltas.valid & (self.control.command == Command.TRAIN)),
            self.monitor.done.eq(self.control.counts.steps_done),
            self.monitor.operation.eq(engine.operation),
            engine.weights.eq(self.control.settings.weights),
            *(getattr(engine, name).eq(getattr(program, name)) for name in ("capacity", "features")),
            engine.inputs.eq(Mux(engine.kept, program.kept_buffer, program.inputs)),
            engine.row_beats.eq(program.kept_beats),
            engine.alike.eq(~program.split),
            self.deltas.first_rows.eq(program.first_rows),
        ]

    def _passes(self, m: Module, sequences: CommandSequences) -> None:
        """Sentences of a pass, and their rows."""
        passes, samples, reader, engine = self.passes, self.samples, self.reader, self.engine
        wiring.connect(m, self.scheduler.sentence, passes.sentence)
        wiring.connect(m, samples.sentence, wiring.flipped(engine.sentence))
        m.d.comb += [
            passes.capacity.eq(self.program.capacity),
            passes.number.eq(Mux(sequences.reads_logits, reader.number, samples.number)),
            samples.entry.eq(passes.entry),
            samples.sentences.eq(passes.sentences),
            samples.kept.eq(passes.upper),
            # of both sides, where they are not alike
            samples.token_beats.eq(
                Mux(passes.upper, self.program.kept_beats << self.program.split, self.program.token_beats)
            ),
            engine.kept.eq(passes.upper),
            *(getattr(engine, name).eq(getattr(passes, name)) for name in ("rows", "sentences", "longest")),
        ]

    def _results(self, m: Module, sequences: CommandSequences) -> None:
        """Logits go to the losses, or to memory, where what passes the cut goes as well."""
        reader, slopes, logits, program = self.reader, self.slopes, self.logits, self.program
        infer, before, labels = sequences.infer, sequences.before, self.slopes.labels
        # a register: long paths begin here, and both are stable long before a result comes
        written = Signal()
        m.d.sync += written.eq(infer | before)
        # what passes a cut has rows for each token, but behind a pool
        tokens = before & ~program.pooled
        results = [(into, name) for into in (slopes, logits) for name in ("logit", "last")]
        wiring.connect(m, reader.operands_read, wiring.flipped(self.engine.operands_read))
        wiring.connect(m, wiring.flipped(self.engine.operands), reader.operands)
        m.d.comb += [
            reader.wide.eq(before & program.kept_wide),
            reader.base.eq(Mux(before, program.kept_base, program.base)),
            reader.stride.eq(program.capacity),
            reader.outputs.eq(Mux(before, program.kept_outputs, program.outputs)),
            reader.sentences.eq(self.passes.sentences),
            reader.rows.eq(Mux(tokens, self.passes.rows, self.passes.sentences)),
            reader.tokens.eq(Mux(tokens, self.passes.entry.tokens, 1)),
            reader.waits.eq(before),
            reader.both.eq(~infer),
            labels.sample.eq(reader.begins & ~written),
            labels.label.valid.eq(reader.begins & ~written),
            labels.label.payload.eq(self.passes.entry.label),
            slopes.i.valid.eq(reader.o.valid & ~written),
            logits.i.valid.eq(reader.o.valid & written),
            *(getattr(into.i.payload, name).eq(getattr(reader.o.payload, name)) for into, name in results),
            reader.o.ready.eq(Mux(written, logits.i.ready, slopes.i.ready)),
        ]

    def _memory(self, m: Module, sequences: CommandSequences) -> None:
        """Connect the requesters and the buses, and report what fails first."""
        memory, control, scheduler, engine = self.memory, self.control, self.scheduler, self.engine
        for bus in buses(self.spec.ports):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, scheduler.order_read, memory.order_read)
        self._stream(m)
        wiring.connect(m, wiring.flipped(engine.corrections_read), memory.corrections_read)
        wiring.connect(m, self.slopes.write, memory.records_write)
        wiring.connect(m, self.logits.write, memory.logits_write)
        wiring.connect(m, self.deltas.save, memory.deltas_write.beats)
        m.d.comb += [
            memory.stop.eq(control.abort),
            memory.hold.eq(control.hold),
            control.quiet.eq(memory.quiet),
            memory.deltas_write.command.payload.address.eq(control.settings.deltas),
            memory.deltas_write.command.payload.beats.eq(self._delta_beats),
        ]
        # a beat is lost where the memory fails: what it leads to is not its own
        faults: list[tuple[Value, Value, Value]] = [
            (memory.fault.failed, memory.fault.error, memory.fault.address),
            (scheduler.fault.failed, scheduler.fault.error, scheduler.fault.address),
            (self.program.failed, self.program.error, self.program.number),
            (sequences.no_program, Const(Error["PROGRAM_NO_PROGRAM"]), Const(0)),
            (sequences.no_cut, Const(Error["PROGRAM_CUT"]), Const(0)),
            (sequences.no_split, Const(Error["BAD_SPLIT"]), control.settings.p2),
            (sequences.no_room, Const(Error["BAD_ADDRESS"]), control.settings.deltas),
            (engine.failed, Const(Error.BAD_WEIGHTS), engine.number),
        ]
        fault = control.fault
        m.d.comb += fault.failed.eq(Cat(failed for failed, *_ in faults).any())
        for failed, error, address in reversed(faults):
            with m.If(failed):
                m.d.comb += [fault.error.eq(error), fault.address.eq(address)]

    def _stream(self, m: Module) -> None:
        """Give the stream of weights its port; of two it takes both in turn, a block of the memory each."""
        memory, asked = self.memory, wiring.flipped(self.engine.stream_read)
        if self.spec.ports == 1:
            wiring.connect(m, asked, memory.stream_read)
            return
        m.submodules.interleave = both = ReadInterleave(self.spec.ports, self.memory.address)
        block = OFFSET_BITS + exact_log2(self.spec.engine.feed.burst)
        m.d.comb += both.port.eq(asked.command.payload.address[block])
        wiring.connect(m, asked, both.read)
        wiring.connect(m, both.port0, memory.stream_read)
        wiring.connect(m, both.port1, memory.stream_read1)

    def _images(self, m: Module, sequences: CommandSequences) -> ImageReads:
        """Read the image of each command that has one, and samples."""
        settings, spec, program, deltas = self.control.settings, self.spec, self.program, self.deltas
        rows = program.rows + Mux(program.cut, program.first_rows, 0)
        m.d.sync += self._delta_beats.eq(rows * (spec.offsets.row_words // WORDS))
        # whoever takes an image is ready until a beat comes; those behind a FIFO are so when they like
        fifos = [Fifo(8 * BEAT, 2) for _ in range(2)]
        m.submodules.delta_beats, m.submodules.sample_beats = delta_beats, sample_beats = fifos
        wiring.connect(m, delta_beats.o, deltas.load)
        wiring.connect(m, sample_beats.o, wiring.flipped(self.engine.beats))
        # a command's done is that of the image: nothing else is under way
        images = (
            Image(Command.LOAD, settings.program, program.beats, self.sequencer.image, program.loaded),
            Image(
                Command.LOAD_DELTAS, settings.deltas, self._delta_beats, delta_beats.i, deltas.done & ~sequences.first
            ),
            Image(Command.TRAIN, settings.state, self._state_beats, deltas.state, deltas.loaded),
        )
        reads = ImageReads(images, self.control.command, self.memory.images_read, self.samples.command)
        reads.connect(m, sample_beats.i)
        return reads
