"""Forward passes of a network on the array, with deltas and generator, for the trainer by zeroth order."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ....golden.axi.bus import BEAT, reach
from ....golden.cores.zeroth_order.registers import Command
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.deltas import DELTA
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
from ...zo.deltas.walks import Walk, WalkRange
from ...zo.steps.state_loader import StateLoader
from ...zo.steps.step_scheduler import StepScheduler
from ..image_reads import Image, ImageReads
from ..logit_writer import LogitWriter
from ..shelled_core import Monitor
from ..zeroth_order.forward_passes import ForwardPasses
from .target_memory import TargetMemory


def _cut(spec: ZotrainSpec) -> Cut | None:
    """Cut of the forward engine, or None; its rows share the deltas' memory or have a memory of their own."""
    forward, rows = spec.mapping.forward, spec.cut_rows
    if not rows:
        return None
    return Cut(forward, SharedRows(forward, rows) if spec.shares_rows else OwnRows(forward, rows))


class ArrayPasses(ForwardPasses):
    """Runs the samples of a pass through the forward engine, one after the other.

    A perturbation makes the offsets of both sides; the passes begin as soon as the first offsets are ready. A sample is
    read once and computed with both perturbation signs, stage by stage. Samples of the next step arrive meanwhile.

    With two parts, the passes of the first part store their outputs in the forward engine's cut memory.
    """

    reads = ("order", "images")
    """Requester ``images``: samples, parameters, deltas and states of the generator."""

    def __init__(self, spec: ZotrainSpec) -> None:
        super().__init__(spec)
        self.mapping = spec.mapping
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
        self.scheduler = StepScheduler(forward.sample_beats, spec.labels, spec.registers.errors, address)
        self.state = StateLoader(generator)
        self.logits = LogitWriter(spec.layout.logit_beats, address)
        self.targets = TargetMemory(forward) if spec.loss == "mse" else None
        self.classes, self.loss = forward.stages[-1].channels, spec.loss
        self.delta_beats = spec.layout.delta_beats
        names = ("engine", "reader", "generator", "numbers", "offsets", "deltas", "scheduler", "state")
        self.parts = {name: getattr(self, name) for name in names}
        if self.targets is not None:
            self.parts["targets"] = self.targets
        self._range, self._walk = Signal(WalkRange, name="range"), Signal(Walk, name="walk_asked")
        self.first, self.position = self._range == WalkRange.FIRST, Signal(range(generator.period), name="position")
        self.cut, self.last_step, self.rests = (Signal(name=name) for name in ("is_cut", "last_step", "empty"))
        # request of an address sequence and its last flag, and restart of the passes of the second part
        self._start, self._final, self._restart = (Signal(name=name) for name in ("start", "final", "restart"))
        # the address sequence has ended; samples may pass; all passes since the release have ended
        self._walked, self._release, self._passed = (Signal(name=name) for name in ("walked", "release", "over"))

    @classmethod
    def monitor_of(cls, spec: ZotrainSpec) -> Monitor:
        """Monitor of a row of deltas."""
        return Monitor(spec.layout.row_beats)

    # -- wires -----------------------------------------------------------------------------------------------------

    def connect(self, m: Module, p1: Value, p2: Value) -> None:
        trainer, settings, job = self.trainer, self.trainer.control.settings, self.scheduler.job
        # registers: the command is stable long before their use
        m.d.sync += [
            self.engine.both.eq(trainer.control.command == Command.TRAIN),
            self.cut.eq(settings.cut != 0),
            self.last_step.eq(self.steps.left == 1),
        ]
        m.d.comb += [
            job.start.eq(self.steps.begin),
            job.repeats.eq(Mux(self.steps.infer, 1, p1)),
            trainer.updates.second.eq(p2),
            self.logits.start.eq(trainer.control.start),
            self.logits.address.eq(settings.logits),
        ]
        self._perturb(m)
        self._follow_position(m)
        self._show(m)
        self._walks(m)
        self._passes(m)
        self._hold_samples(m)
        self._results_left(m)
        if self.targets is not None:
            self._keep_targets(m, self.targets)

    def _perturb(self, m: Module) -> None:
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

    def _follow_position(self, m: Module) -> None:
        period, deltas, control, position = self.spec.source.period, self.deltas, self.trainer.control, self.position
        marked, after = (Signal(range(period), name=name) for name in ("marked", "after"))
        m.d.comb += after.eq(Mux(position == period - 1, 0, position + 1))
        with m.If(control.start):
            m.d.sync += [position.eq(control.settings.position), marked.eq(control.settings.position)]
        with m.Elif(deltas.word_done):
            m.d.sync += position.eq(Mux(deltas.replay, marked, after))
            with m.If(deltas.mark):
                m.d.sync += marked.eq(after)

    def _show(self, m: Module) -> None:
        deltas, monitor = self.deltas, self.trainer.monitor
        beats, parts = self.spec.layout.row_beats, self.spec.parts
        written = Cat(deltas.written & (deltas.written_part == part) for part in range(parts))
        padded = Signal(8 * BEAT * beats // parts)
        m.d.comb += [
            padded.eq(Value.cast(deltas.written_row)),
            monitor.valid.eq(Cat(bit.replicate(beats // parts) for bit in written)),
            monitor.beat.eq(deltas.written_word * beats),
            monitor.data.eq(padded.replicate(parts)),
        ]

    def _walks(self, m: Module) -> None:
        """Connect the address sequences: requests of the states and of the updates, and the settings of all."""
        walk, update, settings = self.deltas.control, self.trainer.updates.walk, self.trainer.control.settings
        largest_eps = DELTA.fraction - self.numbers.format.fraction
        m.d.sync += [
            walk.eps.eq((1 << largest_eps) >> settings.eps_shift[:4]),
            walk.cut.eq(settings.cut),
            walk.gap.eq(settings.gap),
            walk.start.eq(self._start | update.valid),
            walk.walk.eq(Mux(update.valid, Walk.UPDATE, self._walk)),
            walk.range.eq(Mux(update.valid, update.payload.range, self._range)),
            walk.final.eq(Mux(update.valid, update.payload.final, self._final)),
        ]
        m.d.comb += walk.coefficient.eq(update.payload.coefficient)

    def _passes(self, m: Module) -> None:
        """Connect the passes: samples, and the stages of the perturbed part."""
        passes, sample, cut = self.engine.passes, self.engine.sample, self.trainer.control.settings.cut
        words, last_stage = self._range, len(self.mapping.forward.stages) - 1
        m.d.sync += [
            passes.cut.eq(cut),
            passes.first.eq(Mux(words == WalkRange.SECOND, cut, 0)),
            passes.last.eq(Mux(words == WalkRange.FIRST, cut - 1, last_stage)),
            passes.record.eq(words == WalkRange.FIRST),
            passes.restore.eq(words == WalkRange.SECOND),
            passes.restart.eq(self._restart),
            # a register cuts the long path from the activation memory's writes
            self.scheduler.done.eq(sample.done),
        ]
        m.d.comb += [
            self.scheduler.room.eq(sample.room & (1 if self.targets is None else self.targets.room)),
            sample.start.eq(self.scheduler.begin),
        ]

    def _hold_samples(self, m: Module) -> None:
        """Hold samples until their step begins; hold the next step's samples after the last sample of a step.

        Labels are taken in passes of all stages, or of the first part.
        """
        engine, last_sample, slopes = self.engine, self.scheduler.step.payload.last_sample, self.trainer.slopes
        hold, before, begun = (
            Signal(init=1, name="hold"),
            Signal(name="before"),
            Signal(last_sample.shape(), name="begun"),
        )
        begins = engine.running & ~before & ~self.steps.infer
        m.d.sync += before.eq(engine.running)
        if self.targets is None:
            m.d.sync += slopes.labels.sample.eq(begins & (self._range != WalkRange.SECOND))
        with m.If(begins):
            m.d.sync += begun.eq(begun + 1)
            with m.If(begun == last_sample):
                m.d.sync += [hold.eq(1), begun.eq(0)]
        with m.If(self._release):
            m.d.sync += [hold.eq(0), self._passed.eq(0)]
        with m.Elif(self.trainer.control.ready):
            m.d.sync += hold.eq(1)
        with m.Elif(hold & engine.done & ~engine.running):
            m.d.sync += self._passed.eq(1)
        m.d.comb += engine.hold.eq(hold)

    def _results_left(self, m: Module) -> None:
        """Count outstanding logits and clipped values."""
        control, logits, deltas = self.trainer.control, self.logits, self.deltas
        # samples with outstanding logits
        pending = Signal(3)
        logit_done = logits.i.valid & logits.i.ready & logits.i.payload.last
        m.d.sync += [
            pending.eq(pending + (self.scheduler.begin & self.steps.infer) - logit_done),
            self.rests.eq(self.trainer.slopes.empty & logits.empty & (pending == 0)),
            control.counts.saturations.eq(self.engine.clipped + deltas.clipped),
            self._walked.eq((self._walked | deltas.control.done) & ~self._start),
        ]

    def _keep_targets(self, m: Module, targets: TargetMemory) -> None:
        """Store each sample of a step until its losses are known."""
        beats, infer = self.engine.sample.beats, self.steps.infer
        wiring.connect(m, targets.o, self.trainer.slopes.target)
        m.d.comb += [
            targets.start.eq(self.scheduler.begin & ~infer),
            targets.write.eq(beats.valid & beats.ready & ~infer),
            targets.beat.eq(beats.payload),
        ]

    def images(self, m: Module) -> ImageReads:
        control, layout = self.trainer.control, self.spec.layout
        settings, engine, deltas, state = control.settings, self.engine, self.deltas, self.state
        frozen_beats = self.mapping.forward.frozen_beats
        images = (
            Image(Command.LOAD, settings.parameters, frozen_beats, engine.load, engine.loaded),
            Image(Command.LOAD_DELTAS, settings.deltas, layout.delta_beats, deltas.load, deltas.loaded),
            Image(Command.TRAIN, settings.state, layout.state_beats, state.beats, state.done),
        )
        reads = ImageReads(images, control.command, self.trainer.memory.images_read, self.scheduler.sample_command)
        reads.connect(m, engine.sample.beats)
        return reads

    def results(self, m: Module) -> tuple[Any, Value, Value, Value]:
        """Results of the reader: logits; labels go to the losses."""
        reader, infer, label = self.reader, self.steps.infer, self.scheduler.label
        wiring.connect(m, self.engine.outputs, reader.outputs)
        channel = Signal(range(self.classes))
        last = channel == self.classes - 1
        with m.If(reader.o.valid & reader.o.ready):
            m.d.sync += channel.eq(Mux(last, 0, channel + 1))
        if self.targets is not None:
            m.d.comb += label.ready.eq(1)
        else:
            label_input = self.trainer.slopes.labels.label
            m.d.comb += [
                label_input.valid.eq(label.valid & ~infer),
                label_input.payload.eq(label.payload),
                label.ready.eq(label_input.ready | infer),
            ]
        return reader.o, reader.o.payload, last, infer

    # -- states ----------------------------------------------------------------------------------------------------

    def _begin_walk(self, m: Module, walk: Walk, state: str) -> None:
        """Request an address sequence, and go to a state."""
        m.d.comb += [self._start.eq(1), self._walk.eq(walk)]
        m.next = state

    def idle(self, m: Module) -> Value:
        """Select all words, and begin to save the deltas if commanded; every command begins."""
        control = self.trainer.control
        m.d.sync += self._range.eq(WalkRange.ALL)
        m.d.comb += self.deltas.begin_save.eq(control.start & (control.command == Command.SAVE_DELTAS))
        start: Value = control.start
        return start

    def begin_clear(self, m: Module) -> None:
        """Request the address sequence that clears the deltas."""
        self._begin_walk(m, Walk.CLEAR, "CLEAR")

    def begin_inference(self, m: Module) -> None:
        """Make the offsets of the deltas without a perturbation."""
        self._begin_walk(m, Walk.OFFSETS, "OFFSETS")

    def begin_outer(self, m: Module) -> None:
        """Select the words of the first part, or all."""
        m.d.sync += self._range.eq(Mux(self.cut, WalkRange.FIRST, WalkRange.ALL))

    def begin_second(self, m: Module) -> None:
        """Continue with the words of the second part."""
        m.d.sync += self._range.eq(WalkRange.SECOND)
        m.next = "NEXT"

    def begin_perturbation(self, m: Module, first: Value | int) -> None:
        m.next = "NEXT"

    def delta_states(self, m: Module, save: Any) -> None:
        """States that wait for cleared deltas, or write their image."""
        with m.State("CLEAR"), m.If(self.deltas.control.done):
            m.next = "END"
        with m.State("SAVE"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            with m.If(self.deltas.saved):
                m.next = "END"

    def pass_states(self, m: Module, passed: Callable[[], None], ended: Callable[[], None]) -> None:
        """States that make the offsets of both sides; samples are released as soon as the first offsets are ready."""
        steps, walk, position = self.steps, self.deltas.control, self.trainer.slopes.position
        with m.State("NEXT"):
            # a cycle for the registers of the last perturbation
            m.next = "PERTURB"
        with m.State("PERTURB"):
            has_slope = self._range != WalkRange.FIRST
            m.d.comb += [
                self._final.eq(has_slope & steps.outer_ends & steps.inner_ends),
                position.valid.eq(has_slope),
                self._restart.eq(position.ready & (self._range == WalkRange.SECOND)),
            ]
            with m.If(position.ready):
                self._begin_walk(m, Walk.SIDES, "AHEAD")
        with m.State("AHEAD"), m.If(walk.allows_pass & ~walk.start):
            m.d.comb += self._release.eq(1)
            m.next = "PASSES"
        with m.State("PASSES"), m.If(self._passed & self._walked):
            passed()

    def update_states(self, m: Module, ended: Callable[[], None]) -> None:
        """State of the address sequences of the updates."""
        updates = self.trainer.updates
        with m.State("WALK"):
            m.d.comb += [updates.walk.ready.eq(1), updates.moved.eq(self.deltas.control.done)]
            with m.If(updates.done):
                ended()

    def other_states(self, m: Module) -> None:
        """States of an inference: make the offsets of the deltas, then let the samples pass."""
        job = self.scheduler.job
        with m.State("OFFSETS"), m.If(self.deltas.control.done):
            m.d.comb += [job.start.eq(1), self._release.eq(1)]
            m.next = "INFER"
        with m.State("INFER"):
            m.d.comb += self.scheduler.step.ready.eq(1)
            with m.If(job.over & self.rests):
                m.next = "END"
