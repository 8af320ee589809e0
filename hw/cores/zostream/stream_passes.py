"""Forward passes of a streamed program, with deltas and generator, for the trainer by zeroth order."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import BEAT, BEAT_COUNT_BITS, reach
from ....golden.cores.zostream.registers import Command, Error
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.stream.weights.word_offsets import OffsetCommand
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.memory_layout import WORDS
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
from ...axi.read_interleave import ReadInterleave
from ...primitives.fifo import Fifo
from ...probe import probe
from ...stream.engine.engine_port import EnginePort
from ...stream.machine.program_sequencer import ProgramSequencer
from ...zo.deltas.walks import WalkRange
from ..image_reads import Image, ImageReads
from ..logit_writer import LogitWriter
from ..shelled_core import Monitor
from ..zeroth_order.forward_passes import ForwardPasses
from ..zeroth_order.sequencer import ZerothOrderSequencer
from .logit_reader import RESULT, LogitReader
from .pass_memory import PassMemory
from .perturbed_deltas import SHOWN, PerturbedDeltas
from .program_loader import KEPT_BITS, ProgramLoader
from .sample_reads import SampleReads
from .sentence_scheduler import SentenceScheduler
from .streamed_trainer import StreamedTrainer


class StreamPasses(ForwardPasses):
    """Runs a program on passes of whole sentences, as many as fit on the chip with both perturbation signs.

    A pass reads its samples, runs the program, and sends both sides' logits of each sentence to the losses. After the
    last pass the deltas are updated.
    """

    reads = ("order", "images", "corrections", "stream")
    """Requester ``images``: samples, programs, deltas and states of the generator."""
    spread = ("stream",)
    far = True
    delta_beats: Signal

    def __init__(self, spec: ZostreamSpec) -> None:
        super().__init__(spec)
        self.classes = spec.classes
        address, tokens, errors = reach(spec.address), spec.tokens, spec.registers.errors
        chunks = ChunkLayout(spec.lanes, spec.columns, spec.rows, spec.wide_rows)
        self.sequencer = ProgramSequencer(spec.sequencer)
        self.program = ProgramLoader(spec.sequencer, errors, spec.classes, spec.times)
        self.deltas = PerturbedDeltas(spec.offsets)
        self.scheduler = self._scheduler = SentenceScheduler(tokens, errors, address)
        self.passes, self.samples = PassMemory(tokens, address), SampleReads(tokens, address)
        self.reader = LogitReader(chunks, tokens, (1 << KEPT_BITS) - 1)
        self.logits = LogitWriter(address=address, logit=RESULT)
        names = ("sequencer", "program", "deltas", "scheduler", "passes", "samples", "reader")
        self.parts = {name: getattr(self, name) for name in names}
        self.members = {"engine": Out(EnginePort(chunks, spec.sequencer, spec.offsets, address))}
        self._state_beats = -(-spec.generator.state_bits // (8 * BEAT))
        self.delta_beats = Signal(BEAT_COUNT_BITS, name="delta_beats")
        # the perturbation or image of deltas is of the part before the cut; passes end at the cut and store its
        # values; the command is `Command.CACHE`
        self.first, self.before, self.keeps = (Signal(name=name) for name in ("first", "before", "keeps"))
        self.cut, self.single, self.position = (split := Signal(name="split")), ~split, self.deltas.at
        # the first part's values at the cut are in the memory; the pass memory is read for the results
        self._stored, self._reads_logits = Signal(name="stored"), Signal(name="reads_logits")
        # the scheduler begins, a cycle late: the command's checks are slow
        self._begins = Signal(name="begins_job")
        self._final, self._several = Signal(name="final"), Signal(name="several")
        self._loaded, self._asks_deltas = Signal(name="loaded"), Signal(name="asks_deltas")
        self._empty, self._fetched = Signal(name="empty"), Signal(name="fetched")
        self.rests = self._empty & self._fetched
        # refusals, and their hold until reset: no program; no fixed first part; no tuned first part; an image of
        # deltas beyond the address bits
        self._wrong, self._failed = (Signal(4, name=name) for name in ("wrong", "failed"))
        self._refused = Signal(name="refused")

    @classmethod
    def monitor_of(cls, spec: ZostreamSpec) -> Monitor:
        """Monitor of a beat of deltas, and of the active operation."""
        return Monitor(1, operations=True)

    @classmethod
    def assemble(cls, sequencer: ZerothOrderSequencer) -> StreamedTrainer:
        """Trainer of a core: the sequencer with the engine."""
        return StreamedTrainer(sequencer, cls.monitor_of(sequencer.spec))

    @property
    def engine(self) -> Any:
        """Port to the engine."""
        return self.trainer.engine

    def connect(self, m: Module, p1: Value, p2: Value) -> None:
        self._connect_program(m)
        self._connect_passes(m)
        self._connect_stream(m)
        self._settings(m, p1, p2)
        self._results(m)
        self._load_samples(m)
        self._check(m)
        settings, program = self.trainer.control.settings, self.program
        self.faults = [
            (program.failed, program.error, program.number),
            (self._failed[0], Const(Error["PROGRAM_NO_PROGRAM"]), Const(0)),
            (self._failed[1], Const(Error["PROGRAM_CUT"]), Const(0)),
            (self._failed[2], Const(Error["BAD_SPLIT"]), settings.p2),
            (self._failed[3], Const(Error["BAD_ADDRESS"]), settings.deltas),
            (self.engine.failed, Const(Error.BAD_WEIGHTS), self.engine.number),
            (Const(0), Const(0), Const(0)),
        ]

    def _connect_program(self, m: Module) -> None:
        """Connect program, deltas, engine and monitor."""
        program, sequencer, engine, deltas = self.program, self.sequencer, self.engine, self.deltas
        control, monitor = self.trainer.control, self.trainer.monitor
        wiring.connect(m, program.command, sequencer.command)
        wiring.connect(m, sequencer.status, program.status)
        wiring.connect(m, sequencer.o, program.o)
        wiring.connect(m, program.instruction, wiring.flipped(engine.instruction))
        wiring.connect(m, wiring.flipped(engine.request), deltas.request)
        wiring.connect(m, deltas.offsets, wiring.flipped(engine.offsets))
        m.d.comb += [
            program.beats.eq(control.settings.program_beats),
            *(getattr(monitor, name).eq(getattr(deltas, name)) for name in SHOWN),
            # the monitor shows updates only, not loaded or cleared deltas
            monitor.valid.eq(deltas.valid & (control.command == Command.TRAIN)),
            monitor.operation.eq(engine.operation),
            engine.weights.eq(control.settings.weights),
            *(getattr(engine, name).eq(getattr(program, name)) for name in ("capacity", "features")),
            engine.inputs.eq(Mux(engine.kept, program.kept_buffer, program.inputs)),
            engine.row_beats.eq(program.kept_beats),
            engine.alike.eq(~program.split),
            deltas.first_rows.eq(program.first_rows),
            deltas.start.eq(control.start),
            deltas.position.eq(control.settings.position),
        ]

    def _connect_passes(self, m: Module) -> None:
        passes, samples, reader, engine = self.passes, self.samples, self.reader, self.engine
        wiring.connect(m, self._scheduler.sentence, passes.sentence)
        wiring.connect(m, samples.sentence, wiring.flipped(engine.sentence))
        m.d.comb += [
            passes.capacity.eq(self.program.capacity),
            passes.number.eq(Mux(self._reads_logits, reader.number, samples.number)),
            samples.entry.eq(passes.entry),
            samples.sentences.eq(passes.sentences),
            samples.kept.eq(passes.upper),
            # a row at the cut for each side, if the first part is tuned
            samples.token_beats.eq(
                Mux(passes.upper, self.program.kept_beats << self.program.split, self.program.token_beats)
            ),
            engine.kept.eq(passes.upper),
            *(getattr(engine, name).eq(getattr(passes, name)) for name in ("rows", "sentences", "longest")),
        ]

    def _connect_stream(self, m: Module) -> None:
        """Connect the stream of weights; with two ports its blocks alternate between them."""
        memory, asked = self.trainer.memory, wiring.flipped(self.engine.stream_read)
        wiring.connect(m, wiring.flipped(self.engine.corrections_read), memory.corrections_read)
        if self.spec.ports == 1:
            wiring.connect(m, asked, memory.stream_read)
            return
        m.submodules.interleave = both = ReadInterleave(self.spec.ports, memory.address)
        block = OFFSET_BITS + exact_log2(self.spec.engine.feed.burst)
        m.d.comb += both.port.eq(asked.command.payload.address[block])
        wiring.connect(m, asked, both.read)
        wiring.connect(m, both.port0, memory.stream_read)
        wiring.connect(m, both.port1, memory.stream_read1)

    def _settings(self, m: Module, p1: Value, p2: Value) -> None:
        """Connect settings, which are stable during a command."""
        control, settings, job = self.trainer.control, self.trainer.control.settings, self._scheduler.job
        updates, logits, program = self.trainer.updates, self.logits, self.program
        split, infer = self.cut, self.steps.infer
        # repetitions of a step's sentences: passes of the first part and of the second part
        turns, repeats = Signal.like(job.turns, name="turns"), Signal.like(job.repeats, name="repeats")
        product = Signal.like(repeats, name="product")
        largest_eps = DELTA.fraction - PerturbationTable(self.spec.generator).fraction
        m.d.sync += [
            self._begins.eq(self.steps.begin),
            self.keeps.eq(control.command == Command.CACHE),
            split.eq(program.split & (control.command == Command.TRAIN)),
            self.before.eq(self.keeps | (self.first & split)),
            turns.eq(Mux(split, p2 + 1, 1)),
            product.eq(p1 * p2),
            repeats.eq(Mux(infer, 1, p1 + Mux(split, product, 0))),
            self.engine.amount.eq(Mux(infer, 0, (1 << largest_eps) >> settings.eps_shift[:4])),
            self._several.eq((p1 != 1) | (split & (p2 != 1))),
        ]
        m.d.comb += [
            job.start.eq(self._begins),
            job.index.eq(settings.index),
            job.cache.eq(settings.cache),
            job.repeats.eq(repeats),
            job.turns.eq(turns),
            job.upper.eq(settings.cached[0] & ~self.keeps),
            job.pooled.eq(program.pooled),
            job.labels.eq(program.outputs),
            job.capacity.eq(program.capacity),
            self._final.eq(self.steps.outer_ends & self.steps.inner_ends & ~self.first),
            updates.second.eq(Mux(split, p2, 1)),
            logits.start.eq(control.start | (self.reader.begins & self.before)),
            logits.address.eq(Mux(self.before, byte_address(self.passes.entry.kept), settings.logits)),
            logits.sample_beats.eq(Mux(self.before, program.kept_beats, program.logit_beats)),
        ]

    def _results(self, m: Module) -> None:
        """Count clipped values and outstanding results."""
        counts, slopes, engine = self.trainer.control.counts, self.trainer.slopes, self.engine
        # without a perturbation both sides clip the same values
        clipped = Mux(self.steps.infer, engine.clipped >> 1, engine.clipped)
        m.d.sync += [
            counts.saturations.eq(Mux(engine.done, clipped, 0)),
            counts.offsets_clipped.eq(0),
            self._empty.eq(slopes.empty & self.logits.empty),
            self._fetched.eq(engine.fetched),
        ]

    def _load_samples(self, m: Module) -> None:
        """Load the samples of a pass once its sentences are known, while deltas and offsets still change.

        Values at the cut are read only once they are in the memory.
        """
        passes, engine = self.passes, self.engine
        with m.FSM(name="samples"):
            with m.State("WAIT"), m.If(passes.complete & (~passes.upper | ~self.cut | self._stored)):
                m.d.comb += [engine.load.eq(1), self.samples.start.eq(1)]
                m.next = "LOAD"
            with m.State("LOAD"), m.If(engine.loaded):
                m.next = "LOADED"
            with m.State("LOADED"):
                m.d.comb += self._loaded.eq(1)
                with m.If(passes.clear):
                    m.next = "WAIT"

    def images(self, m: Module) -> ImageReads:
        control, settings, spec = self.trainer.control, self.trainer.control.settings, self.spec
        program, deltas = self.program, self.deltas
        rows = program.rows + Mux(program.cut, program.first_rows, 0)
        m.d.sync += self.delta_beats.eq(rows * (spec.offsets.row_words // WORDS))
        # a destination must be ready until a beat arrives; a FIFO serves two that are not
        fifos = [Fifo(8 * BEAT, 2) for _ in range(2)]
        m.submodules.delta_beats, m.submodules.sample_beats = delta_beats, sample_beats = fifos
        wiring.connect(m, delta_beats.o, deltas.load)
        wiring.connect(m, sample_beats.o, wiring.flipped(self.engine.beats))
        # `done` of the deltas belongs to the image: no other command runs
        moved = deltas.done & ~self.first
        images = (
            Image(Command.LOAD, settings.program, program.beats, self.sequencer.image, program.loaded),
            Image(Command.LOAD_DELTAS, settings.deltas, self.delta_beats, delta_beats.i, moved),
            Image(Command.TRAIN, settings.state, self._state_beats, deltas.state, deltas.loaded),
        )
        reads = ImageReads(images, control.command, self.trainer.memory.images_read, self.samples.command)
        reads.connect(m, sample_beats.i)
        return reads

    def results(self, m: Module) -> tuple[Any, Value, Value, Value]:
        """Results of the reader: logits or values at the cut; labels go to the losses."""
        reader, program, before, labels = self.reader, self.program, self.before, self.trainer.slopes.labels
        # a register cuts long paths; both are stable long before a result arrives
        written = Signal(name="written")
        m.d.sync += written.eq(self.steps.infer | before)
        probe(self.trainer, written=written)
        # the cut has a row for each token, except after a pool
        tokens = before & ~program.pooled
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
            reader.both.eq(~self.steps.infer),
            labels.sample.eq(reader.begins & ~written),
            labels.label.valid.eq(reader.begins & ~written),
            labels.label.payload.eq(self.passes.entry.label),
        ]
        return reader.o, reader.o.payload.logit, reader.o.payload.last, written

    def _rows(self, m: Module, kind: OffsetCommand, first: Value) -> None:
        command, program = self.deltas.command.payload, self.program
        m.d.comb += [
            command.kind.eq(kind),
            command.table.eq(program.cut & ~first),
            command.count.eq(Mux(first, program.first_rows, program.rows)),
        ]

    def _command(self, m: Module, kind: OffsetCommand, following: str, first: Value | None = None) -> None:
        """Issue a command for all rows of a part's deltas, and go to a state."""
        command = self.deltas.command
        self._rows(m, kind, self.first if first is None else first)
        m.d.comb += command.valid.eq(1)
        with m.If(command.ready):
            m.next = following

    def idle(self, m: Module) -> Value:
        """Refuse a command that does not fit the program; select the first part's deltas."""
        control, program = self.trainer.control, self.program
        m.d.sync += self.first.eq(program.cut)
        with m.If(control.start & self._refused):
            m.d.sync += self._failed.eq(self._wrong)
            m.next = "FAILED"
        with m.Elif(control.start & control.command.matches(Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN)):
            m.d.comb += program.load.eq(control.command == Command.LOAD)
            m.d.sync += self._asks_deltas.eq(control.command == Command.LOAD_DELTAS)
        begins: Value = control.start & ~self._refused
        return begins

    def _check(self, m: Module) -> None:
        """Register the refusals that depend on the program: their conditions are slow."""
        control, program, settings = self.trainer.control, self.program, self.trainer.control.settings
        trains, save = control.command == Command.TRAIN, self.trainer.memory.deltas_write.command
        conditions = Signal(4, name="conditions")
        cached = (trains | (control.command == Command.INFER)) & settings.cached[0]
        fixed = program.cut & ~program.split
        moves = control.command.matches(Command.LOAD_DELTAS, Command.SAVE_DELTAS)
        # the beat after the image of deltas, and the number of addressable beats
        most = 1 << len(settings.deltas) - OFFSET_BITS
        end = Signal(range(2 * most), name="deltas_end", reset_less=True)
        m.d.sync += end.eq(beat_number(settings.deltas) + save.payload.beats)
        m.d.comb += conditions.eq(
            Cat(
                (control.command != Command.LOAD) & ~program.valid,
                (cached | (control.command == Command.CACHE)) & ~fixed,
                trains & ~program.split & (settings.p2 != 1),
                moves & (end > most),
            )
        )
        m.d.sync += [self._wrong.eq(conditions), self._refused.eq(conditions.any())]

    def begin_clear(self, m: Module) -> None:
        """Clear the first part's deltas, then the second part's."""
        m.d.sync += self.first.eq(self.program.cut)
        m.next = "CLEAR"

    def begin_inference(self, m: Module) -> None:
        """Begin with the sample schedule: an inference makes no perturbation."""
        m.d.comb += self.steps.begin.eq(1)
        m.next = "STEP"

    def begin_outer(self, m: Module) -> None:
        """Select the first or only part; its values at the cut are not yet stored."""
        m.d.sync += [self.first.eq(self.cut), self._stored.eq(0)]

    def begin_second(self, m: Module) -> None:
        """Store the values at the cut before the second part."""
        m.next = "STORE"

    def begin_perturbation(self, m: Module, first: Value | int) -> None:
        """Continue with a perturbation, if any; perturbations of the first part have no projected gradient."""
        m.next = "PASS"
        with m.If(~self.steps.infer):
            m.next = "POSITION"
            with m.If(first):
                m.next = "PERTURB"

    def transfer(self, m: Module) -> None:
        """Load the deltas of both parts from their image."""
        command = self.deltas.command
        self._rows(m, OffsetCommand.LOAD, self.first)
        m.d.comb += command.valid.eq(self._asks_deltas)
        with m.If(command.ready):
            m.d.sync += self._asks_deltas.eq(0)
        with m.If(self.deltas.done & self.first):
            loads = self.trainer.control.command == Command.LOAD_DELTAS
            m.d.sync += [self._asks_deltas.eq(loads), self.first.eq(0)]

    def _both(self, m: Module, state: str) -> None:
        """End a command after the last part's deltas; after the first part's return to a state."""
        with m.If(self.deltas.done):
            m.d.sync += self.first.eq(0)
            m.next = "END"
            with m.If(self.first):
                m.next = state

    def delta_states(self, m: Module, save: Any) -> None:
        """States that clear the deltas of both parts, or write their image."""
        with m.State("CLEAR"):
            self._command(m, OffsetCommand.CLEAR, "CLEARED")
        with m.State("CLEARED"):
            self._both(m, "CLEAR")
        with m.State("SAVE"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            self._command(m, OffsetCommand.SAVE, "SAVING")
        with m.State("SAVING"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            self._both(m, "SAVE")

    def pass_states(self, m: Module, passed: Callable[[], None], ended: Callable[[], None]) -> None:
        """States that make a perturbation, skip the words after it, run the program for each pass, and read logits."""
        deltas, engine, passes, reader = self.deltas, self.engine, self.passes, self.reader
        position = self.trainer.slopes.position
        with m.State("POSITION"):
            m.d.comb += position.valid.eq(1)
            with m.If(position.ready):
                m.next = "PERTURB"
        with m.State("PERTURB"):
            # at the last of several perturbations the generator returns to the first
            m.d.comb += [
                deltas.command.payload.factor.eq(engine.amount),
                deltas.command.payload.replay.eq(self._final & self._several),
            ]
            self._command(m, OffsetCommand.PERTURB, "PERTURBED")
        with m.State("PERTURBED"), m.If(deltas.done):
            m.d.sync += self.trainer.control.counts.offsets_clipped.eq(deltas.clipped)
            m.next = "GAP"
        self._skip(m, "GAP", "PASS", without=self._final | self.first)
        with m.State("PASS"), m.If(self._loaded):
            m.d.comb += [engine.start.eq(1), self.program.run.eq(1)]
            m.d.comb += [self.program.behind.eq(passes.upper), self.program.before.eq(self.before)]
            m.next = "RUN"
        with m.State("RUN"), m.If(engine.done):
            m.d.comb += reader.start.eq(1)
            m.next = "LOGITS"
        with m.State("LOGITS"):
            m.d.comb += self._reads_logits.eq(1)
            with m.If(reader.done):
                m.d.comb += passes.clear.eq(1)
                m.next = "PASS"
                with m.If(passes.last):
                    m.next = "PASSED"
        with m.State("PASSED"):
            with m.If(self.steps.infer):
                m.d.comb += self.scheduler.step.ready.eq(1)
                ended()
            with m.Else():
                passed()
        with m.State("STORE"), m.If(self._empty & self.trainer.memory.settled):
            m.d.sync += [self._stored.eq(1), self.first.eq(0)]
            m.next = "POSITION"

    def _skip(self, m: Module, state: str, following: str, without: Value, mark: Value | int = 0) -> None:
        """Skip the generator's words after a perturbation, if any."""
        command, gap = self.deltas.command, self.trainer.control.settings.gap
        with m.State(state):
            m.d.comb += [
                command.payload.kind.eq(OffsetCommand.SKIP),
                command.payload.count.eq(gap),
                command.payload.mark.eq(mark),
            ]
            with m.If(without | (gap == 0)):
                m.next = following
            with m.Else():
                m.d.comb += command.valid.eq(1)
                with m.If(command.ready):
                    m.next = f"{state}_SKIPPED"
        with m.State(f"{state}_SKIPPED"), m.If(self.deltas.done):
            m.next = following

    def update_states(self, m: Module, ended: Callable[[], None]) -> None:
        """States that update the deltas along a step's perturbations; each of several perturbations is made again."""
        updates, deltas, several = self.trainer.updates, self.deltas, self._several
        walk, command, gap = updates.walk, deltas.command, self.trainer.control.settings.gap
        marks, first = updates.walk.payload.final & several, updates.walk.payload.range == WalkRange.FIRST
        with m.State("WALK"), m.If(walk.valid):
            m.next = "UPDATE"
            with m.If(several):
                m.next = "AGAIN"
        with m.State("AGAIN"):
            m.d.comb += command.payload.mark.eq(marks & (gap == 0))
            self._command(m, OffsetCommand.PERTURB, "MADE", first)
        with m.State("MADE"), m.If(deltas.done):
            m.next = "UPDATE"
        with m.State("UPDATE"):
            m.d.comb += command.payload.factor.eq(walk.payload.coefficient)
            self._command(m, OffsetCommand.UPDATE, "UPDATED", first)
        with m.State("UPDATED"), m.If(deltas.done):
            m.next = "BEHIND"
        self._skip(m, "BEHIND", "MOVED", without=first, mark=marks)
        with m.State("MOVED"):
            # taken only now, as its payload must stay valid during the update
            m.d.comb += walk.ready.eq(1)
            m.next = "NEXT"
        with m.State("NEXT"):
            m.d.comb += updates.moved.eq(1)
            m.next = "WALK"
            with m.If(updates.done):
                ended()

    def other_states(self, m: Module) -> None:
        """State after a fault, up to the reset."""
        with m.State("FAILED"):
            pass
