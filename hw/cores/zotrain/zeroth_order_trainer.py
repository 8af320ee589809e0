"""Zeroth-order trainer: forward engine, deltas, generator, loss difference and schedule, behind the shell."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.axi_read import AxiReadSpec
from ....golden.axi.axi_write import AxiWriteSpec
from ....golden.axi.bus import BEAT, BEAT_COUNT_BITS
from ....golden.cores.zotrain.registers import CORE, Command, Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.deltas import DELTA
from ....golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES
from ...axi.memory_port import beat_number, byte_address
from ...nn.forward.cut import Cut
from ...nn.forward.offset_parameters import OffsetParameters
from ...nn.forward.sides import TwoSides
from ...nn.forward_engine import ForwardEngine
from ...nn.memories.cut_memory import OwnRows, SharedRows
from ...nn.memories.output_memory import OutputReader
from ...rng.generators import generator_of
from ...zo.deltas.delta_memory import DeltaMemory, Walk, WalkRange
from ...zo.deltas.offset_memory import OffsetMemory
from ...zo.deltas.perturbation_numbers import PerturbationNumbers
from ...zo.steps.slope_recorder import SlopeRecorder
from ...zo.steps.state_loader import StateLoader
from ...zo.steps.step_scheduler import StepScheduler
from ...zo.steps.step_updates import StepUpdates
from ..logit_writer import LogitWriter
from ..memory_system import MemorySystem, buses
from ..shell import Control
from .target_memory import TargetMemory

READS = ("order", "images")
"""Requesters that read, the highest rank first; images are samples, parameters, deltas and states of the generator."""
WRITES = ("records", "logits", "deltas")
"""Requesters that write, the highest rank first."""
CHUNK = 1 << (BEAT_COUNT_BITS - 1)
"""Beats of a command where an image takes several."""
_READER, _WRITER = AxiReadSpec(burst=16, depth=32), AxiWriteSpec(burst=16, depth=32)
"""Short FIFOs, which are no block RAM: a sample takes thousands of cycles, and its successor is read meanwhile."""


class Monitor(wiring.Signature):
    """Updates of the deltas as they are written, for a simulation or a logic analyser.

    Parameters
    ----------
    row_beats : int
        Beats of a row of deltas.

    Members
    -------
    valid : Out(row_beats)
        Which beats of the deltas' image change in this cycle: `beat`, and those behind it.
    beat : Out(16)
        The first one's number.
    data : Out(128 * row_beats)
        Their new contents.
    done : Out(1)
        A step's update is complete; one cycle.
    """

    def __init__(self, row_beats: int) -> None:
        super().__init__({"valid": Out(row_beats), "beat": Out(16), "data": Out(8 * BEAT * row_beats), "done": Out(1)})


def _cut(spec: ZotrainSpec) -> Cut | None:
    """Cut of the forward engine, where there is one: its rows are beside the deltas, or in a memory of their own."""
    forward, rows = spec.mapping.forward, spec.cut_rows
    if not rows:
        return None
    shared = spec.cut_style == "shared"
    return Cut(forward, SharedRows(forward, rows) if shared else OwnRows(forward, rows, spec.cut_style))


class ZerothOrderTrainer(wiring.Component):
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
        self.offsets = OffsetMemory(spec.mapping, self.numbers)
        self.engine = ForwardEngine(
            forward,
            parameters=OffsetParameters(forward, self.offsets.interface),
            sides=TwoSides(forward),
            cut=_cut(spec),
            kept=len(forward.stages) - 1,
        )
        self.reader = OutputReader(forward)
        shared = self.engine.cut.signature if spec.cut_style == "shared" else None
        self.deltas = DeltaMemory(spec.mapping, self.numbers, spec.deltas, shared)
        address = spec.address
        self.slopes, self.updates = SlopeRecorder(forward.stages[-1].channels, address, spec.loss), StepUpdates()
        self.scheduler, self.state = StepScheduler(forward, spec.labels, Error, address), StateLoader(generator)
        self.logits = LogitWriter(spec.layout.logit_beats, address)
        self.targets = TargetMemory(forward) if spec.loss == "mse" else None
        self.memory = MemorySystem(READS, WRITES, Error, reader=_READER, writer=_WRITER, address=address)
        ports = {"control": In(Control(CORE, address)), **buses(1, address)}
        super().__init__({**ports, "monitor": Out(Monitor(spec.layout.row_beats))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, engine = self.control, self.engine
        for name in (
            "engine", "reader", "generator", "numbers", "offsets", "deltas", "slopes", "updates", "scheduler", "state",
            "logits", "memory",
        ):  # fmt: skip
            m.submodules[name] = getattr(self, name)
        # registered: the command is stable long before they are used
        infer, transferring = Signal(), Signal()
        m.d.sync += [
            infer.eq(control.command == Command.INFER),
            engine.both.eq(control.command == Command.TRAIN),
        ]
        self._perturb(m)
        self._monitor(m)
        transferred, further = self._memory(m, transferring)
        self._results(m, infer)
        if self.targets is not None:
            self._targets(m, self.targets, infer)
        self._commands(m, infer, transferring, transferred, further)
        return m

    def _perturb(self, m: Module) -> None:
        """Generator, numbers, deltas, offsets, engine."""
        deltas, generator = self.deltas, self.generator
        m.d.comb += [
            self.numbers.i.eq(generator.o.payload),
            self.numbers.part.eq(deltas.part),
            deltas.numbers.eq(self.numbers.o),
            deltas.valid.eq(generator.o.valid),
            generator.o.ready.eq(deltas.word),
            generator.replay.bit.eq(deltas.replay),
            generator.mark.bit.eq(deltas.mark),
        ]
        wiring.connect(m, self.state.load, generator.load)
        wiring.connect(m, deltas.offsets, self.offsets.row)
        wiring.connect(m, self.engine.offsets, self.offsets.offsets)
        if self.spec.cut_style == "shared":
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

    def _memory(self, m: Module, transferring: Value) -> tuple[Value, Value]:
        """Connect the requesters and the buses; if all beats of a command's own image have come, and if more are to be
        asked for.

        While `transferring` the images that are read are the command's own, and otherwise samples.
        """
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
            control.quiet.eq(memory.quiet),
            control.fault.failed.eq(memory.fault.failed | scheduler.fault.failed),
            control.fault.error.eq(Mux(memory.fault.failed, memory.fault.error, scheduler.fault.error)),
            control.fault.address.eq(Mux(memory.fault.failed, memory.fault.address, scheduler.fault.address)),
            memory.deltas_write.command.payload.address.eq(control.settings.deltas),
            memory.deltas_write.command.payload.beats.eq(self.spec.layout.delta_beats),
        ]
        # a register: the path from the activation memory's writes is long
        m.d.sync += scheduler.done.eq(self.engine.sample.done)
        layout, settings, forward = self.spec.layout, control.settings, self.mapping.forward
        # command, where its image is, its beats, where they go, and when they are there
        own = (
            (Command.LOAD, settings.parameters, forward.frozen_beats, self.engine.load, self.engine.loaded),
            (Command.LOAD_DELTAS, settings.deltas, layout.delta_beats, self.deltas.load, self.deltas.loaded),
            (Command.TRAIN, settings.state, layout.state_beats, self.state.beats, self.state.done),
        )
        image, sample, transferred = memory.images_read, scheduler.sample_command, Signal()
        left = Signal(range(max(count for _, _, count, *_ in own) + 1))
        selected, at = Signal(len(own)), Signal.like(beat_number(settings.parameters))
        m.d.sync += [
            selected.eq(Cat(transferring & (control.command == command) for command, *_ in own)),
            transferred.eq(Cat(done for *_, done in own).any()),
        ]
        beats, further = left, Const(0)
        if len(left) > BEAT_COUNT_BITS:
            # an image of more beats than a command counts takes several commands
            beats, further = Mux(left > CHUNK, CHUNK, left), left > CHUNK
        with m.If(transferring), m.If(further & image.command.valid & image.command.ready):
            m.d.sync += [at.eq(at + CHUNK), left.eq(left - CHUNK)]
        with m.Else(), m.Switch(control.command):
            for command, where, count, *_ in own:
                with m.Case(command):
                    m.d.sync += [at.eq(beat_number(where)), left.eq(count)]
        m.d.comb += [
            image.command.payload.address.eq(Mux(transferring, byte_address(at), sample.payload.address)),
            image.command.payload.beats.eq(Mux(transferring, beats, sample.payload.beats)),
            sample.ready.eq(image.command.ready & ~transferring),
        ]
        into = [(stream, selected[number]) for number, (*_, stream, _) in enumerate(own)]
        into.append((self.engine.sample.beats, ~transferring))
        # ready is a register, as the paths through arbiter and reader are long: a beat every other cycle is enough
        ready = Signal()
        m.d.comb += image.beats.ready.eq(ready)
        m.d.sync += ready.eq(Cat(stream.ready & chosen for stream, chosen in into).any() & ~(image.beats.valid & ready))
        for stream, chosen in into:
            m.d.comb += [stream.valid.eq(image.beats.valid & ready & chosen), stream.payload.eq(image.beats.payload)]
        return transferred, further

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
                slopes.label.valid.eq(label.valid & ~infer),
                slopes.label.payload.eq(label.payload),
                label.ready.eq(slopes.label.ready | infer),
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

    def _samples(self, m: Module, release: Value, infer: Value, first: Value) -> Value:
        """Hold samples until their step begins; its last one is followed by none of the next step's.

        Labels are taken in passes of the `first` part. Returns if all passes are over since the last `release`.
        """
        engine, step, slopes = self.engine, self.scheduler.step, self.slopes
        hold, before = Signal(init=1), Signal()
        begun, over = Signal(step.payload.last_sample.shape()), Signal()
        begins = engine.running & ~before & ~infer
        m.d.sync += before.eq(engine.running)
        if self.targets is None:
            m.d.sync += slopes.sample.eq(begins & first)
        with m.If(begins):
            m.d.sync += begun.eq(begun + 1)
            with m.If(begun == step.payload.last_sample):
                m.d.sync += [hold.eq(1), begun.eq(0)]
        with m.If(release):
            m.d.sync += [hold.eq(0), over.eq(0)]
        with m.Elif(self.control.ready):
            m.d.sync += hold.eq(1)
        with m.Elif(hold & engine.done & ~engine.running):
            m.d.sync += over.eq(1)
        m.d.comb += [engine.hold.eq(hold), slopes.last_sample.eq(step.payload.last_sample)]
        return over

    def _position(self, m: Module) -> Signal:
        """Position of the generator's word on offer."""
        period, deltas, control = self.spec.source.period, self.deltas, self.control
        position, marked, after = (Signal(range(period), name=name) for name in ("position", "marked", "after"))
        m.d.comb += after.eq(Mux(position == period - 1, 0, position + 1))
        with m.If(control.start):
            m.d.sync += [position.eq(control.settings.position), marked.eq(control.settings.position)]
        with m.Elif(deltas.word):
            m.d.sync += position.eq(Mux(deltas.replay, marked, after))
            with m.If(deltas.mark):
                m.d.sync += marked.eq(after)
        return position

    def _commands(self, m: Module, infer: Value, transferring: Signal, transferred: Value, further: Value) -> None:
        """Sequence of each command."""
        control, settings, memory, engine = self.control, self.control.settings, self.memory, self.engine
        deltas, scheduler, slopes, updates = self.deltas, self.scheduler, self.slopes, self.updates
        image, save = memory.images_read.command, memory.deltas_write.command
        walk, job, passes = deltas.control, scheduler.job, engine.passes
        position = self._position(m)
        steps_left, last_step, release = Signal(32), Signal(), Signal()
        # the perturbation in progress, the slopes that are still to come, and whether the walk is over
        i, j = Signal(range(MOST_PERTURBATIONS)), Signal(range(MOST_PERTURBATIONS))
        slopes_left = Signal(range(MOST_SLOPES + 1))
        p1, p2 = (value[: MOST_PERTURBATIONS.bit_length()] for value in (settings.p1, settings.p2))
        last_i, last_j, cut, walked = Signal(), Signal(), Signal(), Signal()
        words, begins = Signal(WalkRange), Signal()
        start, kind, final, restart = Signal(), Signal(Walk), Signal(), Signal()
        requested = Signal()
        largest = DELTA.fraction - self.numbers.format.fraction
        final_stage = len(self.mapping.forward.stages) - 1
        m.d.sync += [
            walk.eps.eq((1 << largest) >> settings.eps_shift[:4]),
            walk.cut.eq(settings.cut),
            walk.gap.eq(settings.gap),
            cut.eq(settings.cut != 0),
            last_step.eq(steps_left == 1),
            last_i.eq(i == p1 - 1),
            last_j.eq(j == p2 - 1),
            passes.cut.eq(settings.cut),
            passes.first.eq(Mux(words == WalkRange.SECOND, settings.cut, 0)),
            passes.last.eq(Mux(words == WalkRange.FIRST, settings.cut - 1, final_stage)),
            passes.record.eq(words == WalkRange.FIRST),
            passes.restore.eq(words == WalkRange.SECOND),
            # registers between the sequences of the commands, of the walks and of the passes
            passes.restart.eq(restart),
            walk.start.eq(start | updates.walk.valid),
            walk.walk.eq(Mux(updates.walk.valid, Walk.UPDATE, kind)),
            walk.range.eq(Mux(updates.walk.valid, updates.walk.payload.range, words)),
            walk.final.eq(Mux(updates.walk.valid, updates.walk.payload.final, final)),
        ]
        m.d.comb += [
            walk.coefficient.eq(updates.walk.payload.coefficient),
            *(getattr(job, name).eq(getattr(settings, name)) for name in ("order", "samples", "sample_count", "steps")),
            job.batch.eq(settings.batch),
            job.repeats.eq(Mux(infer, 1, p1)),
            updates.first.eq(p1),
            updates.second.eq(p2),
            updates.cut.eq(cut),
            updates.scalars.eq(settings.scalars),
            slopes.start.eq(control.start),
            slopes.address.eq(settings.records),
            slopes.batch.eq(settings.batch),
            slopes.rate.eq(scheduler.step.payload.rate),
            slopes.shift.eq(settings.shift),
            slopes.position.payload.eq(position),
            updates.coefficient.valid.eq(slopes.o.valid),
            updates.coefficient.payload.eq(slopes.o.payload),
            self.logits.start.eq(control.start),
            self.logits.address.eq(settings.logits),
            image.valid.eq(Mux(transferring, requested, scheduler.sample_command.valid)),
            control.counts.coefficients_clipped.eq(slopes.clipped | updates.clipped),
        ]
        passed = self._samples(m, release, infer, words != WalkRange.SECOND)
        # samples whose logits are still to come, and what is still to be written
        pending, empty = Signal(3), Signal()
        logit_done = self.logits.i.valid & self.logits.i.ready & self.logits.i.payload.last
        m.d.sync += [
            pending.eq(pending + (scheduler.begin & infer) - logit_done),
            empty.eq(slopes.empty & self.logits.empty & (pending == 0)),
            control.counts.saturations.eq(engine.clipped + deltas.clipped),
            walked.eq((walked | walk.done) & ~start),
            slopes_left.eq(slopes_left + begins - slopes.o.valid),
        ]

        def begin(what: Walk, state: str) -> None:
            m.d.comb += [start.eq(1), kind.eq(what)]
            m.next = state

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += control.ready.eq(1)
                m.d.sync += [steps_left.eq(settings.steps), slopes_left.eq(0), words.eq(WalkRange.ALL)]
                with m.If(control.start), m.Switch(control.command):
                    with m.Case(Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN):
                        m.d.sync += [transferring.eq(1), requested.eq(1)]
                        m.next = "TRANSFER"
                    with m.Case(Command.SAVE_DELTAS):
                        m.d.comb += deltas.begin_save.eq(1)
                        m.d.sync += save.valid.eq(1)
                        m.next = "SAVE"
                    with m.Case(Command.INFER):
                        begin(Walk.OFFSETS, "OFFSETS")
            with m.State("TRANSFER"):
                with m.If(image.ready & ~further):
                    m.d.sync += requested.eq(0)
                with m.If(transferred):
                    m.d.sync += transferring.eq(0)
                    m.next = "TRANSFERRED"
            with m.State("TRANSFERRED"), m.Switch(control.command):
                with m.Case(Command.LOAD):
                    begin(Walk.CLEAR, "CLEAR")
                with m.Case(Command.TRAIN):
                    m.d.comb += job.start.eq(1)
                    m.next = "STEP"
                with m.Default():
                    m.next = "END"
            with m.State("CLEAR"), m.If(walk.done):
                m.next = "END"
            with m.State("SAVE"):
                with m.If(save.ready):
                    m.d.sync += save.valid.eq(0)
                with m.If(deltas.saved):
                    m.next = "END"
            with m.State("STEP"):
                m.d.sync += [i.eq(0), j.eq(0), words.eq(Mux(cut, WalkRange.FIRST, WalkRange.ALL))]
                with m.If(scheduler.step.valid):
                    m.next = "NEXT"
            with m.State("NEXT"):
                # a cycle for the registers that tell the last perturbation
                m.next = "PERTURB"
            with m.State("PERTURB"):
                second = words != WalkRange.FIRST
                m.d.comb += [
                    final.eq(second & last_i & last_j),
                    slopes.position.valid.eq(second),
                    begins.eq(second & slopes.position.ready),
                    restart.eq(slopes.position.ready & (words == WalkRange.SECOND)),
                ]
                with m.If(slopes.position.ready):
                    begin(Walk.SIDES, "AHEAD")
            with m.State("AHEAD"), m.If(walk.ahead & ~walk.start):
                m.d.comb += release.eq(1)
                m.next = "PASSES"
            with m.State("PASSES"), m.If(passed & walked):
                m.next = "NEXT"
                with m.If(words == WalkRange.FIRST):
                    m.d.sync += words.eq(WalkRange.SECOND)
                with m.Elif(~last_j):
                    m.d.sync += j.eq(j + 1)
                with m.Elif(~last_i):
                    m.d.sync += [i.eq(i + 1), j.eq(0), words.eq(Mux(cut, WalkRange.FIRST, WalkRange.ALL))]
                with m.Else():
                    m.next = "SLOPES"
            with m.State("SLOPES"), m.If(slopes_left == 0):
                m.d.comb += scheduler.step.ready.eq(1)
                m.next = "COEFFICIENTS"
            with m.State("COEFFICIENTS"):
                m.d.comb += updates.start.eq(1)
                m.next = "UPDATE"
            with m.State("UPDATE"):
                m.d.comb += [updates.walk.ready.eq(1), updates.moved.eq(walk.done)]
                with m.If(updates.done):
                    m.d.comb += [control.counts.steps_done.eq(1), self.monitor.done.eq(1)]
                    m.d.sync += steps_left.eq(steps_left - 1)
                    m.next = "STEP"
                    with m.If(last_step):
                        m.next = "END"
            with m.State("OFFSETS"), m.If(walk.done):
                m.d.comb += [job.start.eq(1), release.eq(1)]
                m.next = "INFER"
            with m.State("INFER"):
                m.d.comb += scheduler.step.ready.eq(1)
                with m.If(job.over & empty):
                    m.next = "END"
            with m.State("END"), m.If(empty & memory.settled):
                m.d.comb += control.finished.eq(1)
                m.next = "IDLE"
