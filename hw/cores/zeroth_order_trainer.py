"""Zeroth-order trainer: forward engine, deltas, generator, loss difference and schedule, behind the shell."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_read import AxiReadSpec
from ...golden.axi.axi_write import AxiWriteSpec
from ...golden.axi.bus import BEAT
from ...golden.cores.zotrain import ZotrainSpec
from ...golden.cores.zotrain_registers import CORE, Command, Error
from ...golden.zo.coefficient import CoefficientSpec
from ...golden.zo.deltas import DELTA
from ...golden.zo.loss_difference import LossDifferenceSpec
from ..nn.forward_engine import ForwardEngine
from ..nn.output_reader import OutputReader
from ..rng.generators import generator_of
from ..zo.coefficient import Coefficient
from ..zo.delta_memory import DeltaMemory, Walk
from ..zo.loss_difference import LossDifference
from ..zo.offset_memory import OffsetMemory
from ..zo.perturbation_numbers import PerturbationNumbers
from ..zo.record_writer import RecordWriter
from ..zo.state_loader import StateLoader
from ..zo.step_scheduler import StepScheduler
from .logit_writer import LogitWriter
from .memory_system import MemorySystem, buses
from .shell import Control

READS = ("order", "images")
"""Requesters that read, the highest rank first; images are samples, parameters, deltas and states of the generator."""
WRITES = ("records", "logits", "deltas")
"""Requesters that write, the highest rank first."""
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


class ZerothOrderTrainer(wiring.Component):
    """Trains all parameters of a network and infers with them, a command of `Command` at a time.

    A step makes the offsets of both sides of a perturbation; the passes begin as soon as the first are there. A sample
    is read once and computed on the plus side, then on the minus side. When the last sample's loss difference is there,
    the deltas are updated. The samples of the next step come in meanwhile.

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
        self.engine = ForwardEngine(forward, offsets=self.offsets.interface, kept=len(forward.stages) - 1)
        self.reader = OutputReader(forward)
        self.span = spec.mapping.span(generator.period)
        self.deltas = DeltaMemory(spec.mapping, self.numbers, self.span, spec.deltas)
        self.loss = LossDifference(LossDifferenceSpec(classes=forward.stages[-1].channels))
        self.coefficient = Coefficient(CoefficientSpec())
        self.scheduler, self.state = StepScheduler(forward, Error), StateLoader(generator)
        self.records, self.logits = RecordWriter(), LogitWriter(spec.layout.logit_beats)
        self.memory = MemorySystem(READS, WRITES, Error, reader=_READER, writer=_WRITER)
        super().__init__({"control": In(Control(CORE)), **buses(1), "monitor": Out(Monitor(spec.layout.row_beats))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, engine = self.control, self.engine
        for name in (
            "engine", "reader", "generator", "numbers", "offsets", "deltas", "loss", "coefficient", "scheduler",
            "state", "records", "logits", "memory",
        ):  # fmt: skip
            m.submodules[name] = getattr(self, name)
        # registered: the command is stable long before they are used
        infer, transferring = Signal(), Signal()
        m.d.sync += [
            infer.eq(control.command == Command.INFER),
            engine.twice.eq(control.command == Command.TRAIN),
        ]
        self._perturb(m)
        self._monitor(m)
        transferred = self._memory(m, transferring)
        self._results(m, infer)
        last_loss = self._losses(m)
        self._commands(m, infer, transferring, transferred, last_loss)
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
            self.offsets.side.eq(self.engine.again),
        ]
        wiring.connect(m, self.state.load, generator.load)
        wiring.connect(m, deltas.offsets, self.offsets.row)
        wiring.connect(m, self.engine.offsets, self.offsets.offsets)

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

    def _memory(self, m: Module, transferring: Value) -> Value:
        """Connect the requesters and the buses; whether all beats of a command's own image have come.

        While `transferring` the images that are read are the command's own, and otherwise samples.
        """
        memory, control, scheduler = self.memory, self.control, self.scheduler
        for bus in buses(1):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, scheduler.order_read, memory.order_read)
        wiring.connect(m, self.records.write, memory.records_write)
        wiring.connect(m, self.logits.write, memory.logits_write)
        wiring.connect(m, self.deltas.save, memory.deltas_write.beats)
        m.d.comb += [
            scheduler.room.eq(self.engine.sample.room),
            scheduler.done.eq(self.engine.sample.done),
            self.engine.sample.start.eq(scheduler.begin),
            memory.stop.eq(control.abort),
            control.quiet.eq(memory.quiet),
            control.fault.failed.eq(memory.fault.failed | scheduler.fault.failed),
            control.fault.error.eq(Mux(memory.fault.failed, memory.fault.error, scheduler.fault.error)),
            control.fault.address.eq(Mux(memory.fault.failed, memory.fault.address, scheduler.fault.address)),
            memory.deltas_write.command.payload.address.eq(control.settings.deltas),
            memory.deltas_write.command.payload.beats.eq(self.spec.layout.delta_beats),
        ]
        layout, settings, forward = self.spec.layout, control.settings, self.mapping.forward
        # command, where its image is, its beats, where they go, and when they are there
        own = (
            (Command.LOAD, settings.parameters, forward.frozen_beats, self.engine.load, self.engine.loaded),
            (Command.LOAD_DELTAS, settings.deltas, layout.delta_beats, self.deltas.load, self.deltas.loaded),
            (Command.TRAIN, settings.state, layout.state_beats, self.state.beats, self.state.done),
        )
        image, sample, transferred = memory.images_read, scheduler.sample_command, Signal()
        address, beats, selected = Signal(32), Signal(16), Signal(len(own))
        m.d.sync += [
            selected.eq(Cat(transferring & (control.command == command) for command, *_ in own)),
            transferred.eq(Cat(done for *_, done in own).any()),
        ]
        with m.Switch(control.command):
            for command, where, count, *_ in own:
                with m.Case(command):
                    m.d.sync += [address.eq(where), beats.eq(count)]
        m.d.comb += [
            image.command.payload.address.eq(Mux(transferring, address, sample.payload.address)),
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
        return transferred

    def _results(self, m: Module, infer: Value) -> None:
        """Logits go to the losses, or to memory."""
        engine, reader, loss, logits = self.engine, self.reader, self.loss, self.logits
        wiring.connect(m, engine.outputs, reader.outputs)
        channels = self.mapping.forward.stages[-1].channels
        channel = Signal(range(channels))
        last = channel == channels - 1
        taken = reader.o.valid & reader.o.ready
        with m.If(taken):
            m.d.sync += channel.eq(Mux(last, 0, channel + 1))
        m.d.comb += [
            *(into.i.payload.logit.eq(reader.o.payload) for into in (loss, logits)),
            *(into.i.payload.last.eq(last) for into in (loss, logits)),
            loss.i.valid.eq(reader.o.valid & ~infer),
            logits.i.valid.eq(reader.o.valid & infer),
            reader.o.ready.eq(Mux(infer, logits.i.ready, loss.i.ready)),
            loss.label.valid.eq(self.scheduler.label.valid & ~infer),
            loss.label.payload.label.eq(self.scheduler.label.payload),
            self.scheduler.label.ready.eq(loss.label.ready | infer),
        ]

    def _losses(self, m: Module) -> Value:
        """Loss differences go to the coefficient and into the record; whether a step's last one does, a cycle late."""
        loss, coefficient, records, step = self.loss, self.coefficient, self.records, self.scheduler.step
        done, last, over = Signal(step.payload.last_sample.shape()), Signal(), Signal()
        moved = loss.o.valid & coefficient.i.ready & records.pair.ready
        m.d.sync += [last.eq(done == step.payload.last_sample), over.eq(moved & last)]
        with m.If(moved):
            m.d.sync += done.eq(Mux(last, 0, done + 1))
        m.d.comb += [
            coefficient.i.valid.eq(loss.o.valid & records.pair.ready),
            records.pair.valid.eq(loss.o.valid & coefficient.i.ready),
            loss.o.ready.eq(coefficient.i.ready & records.pair.ready),
            coefficient.i.payload.difference.eq(loss.o.payload.difference),
            coefficient.i.payload.last.eq(last),
            records.pair.payload.plus.eq(loss.o.payload.plus),
            records.pair.payload.minus.eq(loss.o.payload.minus),
            records.pair.payload.last.eq(last),
            records.summary.payload.coefficient.eq(coefficient.o.payload.coefficient),
            records.summary.payload.difference.eq(coefficient.o.payload.difference),
            coefficient.rate.payload.rate.eq(step.payload.rate),
            coefficient.rate.payload.shift.eq(self.control.settings.shift),
        ]
        return over

    def _hold(self, m: Module, release: Value, infer: Value) -> None:
        """Hold samples until their step begins; its last one is followed by none of the next step's."""
        engine, step = self.engine, self.scheduler.step
        hold, before, begun = Signal(init=1), Signal(), Signal(step.payload.last_sample.shape())
        first_pass = engine.running & ~engine.again
        m.d.sync += before.eq(first_pass)
        with m.If(first_pass & ~before & ~infer):
            m.d.sync += begun.eq(begun + 1)
            with m.If(begun == step.payload.last_sample):
                m.d.sync += [hold.eq(1), begun.eq(0)]
        with m.If(release):
            m.d.sync += hold.eq(0)
        with m.Elif(self.control.ready):
            m.d.sync += hold.eq(1)
        m.d.comb += engine.hold.eq(hold)

    def _commands(self, m: Module, infer: Value, transferring: Signal, transferred: Value, last_loss: Value) -> None:
        """Sequence of each command."""
        control, settings, memory = self.control, self.control.settings, self.memory
        deltas, scheduler, coefficient, records = self.deltas, self.scheduler, self.coefficient, self.records
        image, save = memory.images_read.command, memory.deltas_write.command
        walk, job = deltas.control, scheduler.job
        period = self.spec.source.period
        position, after = Signal(range(period)), Signal(range(period + self.span))
        steps_left, last_step, release = Signal(32), Signal(), Signal()
        chosen, requested = Signal.like(walk.coefficient), Signal()
        largest = DELTA.fraction - self.numbers.format.fraction
        m.d.sync += [walk.eps.eq((1 << largest) >> settings.eps_shift[:4]), last_step.eq(steps_left == 1)]
        m.d.comb += [
            walk.coefficient.eq(chosen),
            *(getattr(job, name).eq(getattr(settings, name)) for name in ("order", "samples", "sample_count", "steps")),
            job.batch.eq(settings.batch),
            records.start.eq(control.start),
            records.address.eq(settings.records),
            records.batch.eq(settings.batch),
            records.summary.payload.position.eq(position),
            self.logits.start.eq(control.start),
            self.logits.address.eq(settings.logits),
            after.eq(position + self.span),
            image.valid.eq(Mux(transferring, requested, scheduler.sample_command.valid)),
        ]
        self._hold(m, release, infer)
        # samples whose logits are still to come, and what is still to be written
        pending, empty = Signal(3), Signal()
        logit_done = self.logits.i.valid & self.logits.i.ready & self.logits.i.payload.last
        m.d.sync += [
            pending.eq(pending + (scheduler.begin & infer) - logit_done),
            empty.eq(records.empty & self.logits.empty & (pending == 0)),
            control.counts.saturations.eq(self.engine.clipped + deltas.clipped),
        ]

        def begin(kind: Walk, state: str) -> None:
            m.d.comb += [walk.start.eq(1), walk.walk.eq(kind)]
            m.next = state

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += control.ready.eq(1)
                m.d.sync += [steps_left.eq(settings.steps), position.eq(settings.position)]
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
                with m.If(image.ready):
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
            with m.State("STEP"), m.If(scheduler.step.valid):
                begin(Walk.SIDES, "AHEAD")
            with m.State("AHEAD"), m.If(walk.ahead):
                m.d.comb += release.eq(1)
                m.next = "PASSES"
            with m.State("PASSES"), m.If(last_loss):
                m.next = "RATE"
            with m.State("RATE"):
                m.d.comb += coefficient.rate.valid.eq(1)
                with m.If(coefficient.rate.ready):
                    m.d.comb += scheduler.step.ready.eq(1)
                    m.next = "COEFFICIENT"
            with m.State("COEFFICIENT"):
                m.d.sync += chosen.eq(coefficient.o.payload.coefficient)
                m.d.comb += [
                    records.summary.valid.eq(coefficient.o.valid),
                    coefficient.o.ready.eq(records.summary.ready),
                ]
                with m.If(coefficient.o.valid & records.summary.ready):
                    m.d.comb += control.counts.coefficients_clipped.eq(coefficient.o.payload.clipped)
                    begin(Walk.UPDATE, "UPDATE")
            with m.State("UPDATE"), m.If(walk.done):
                m.d.comb += [control.counts.steps_done.eq(1), self.monitor.done.eq(1)]
                m.d.sync += [
                    steps_left.eq(steps_left - 1),
                    position.eq(Mux(after >= period, after - period, after)),
                ]
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
