"""Sequences of the commands of `zotrain`: load, load deltas, save deltas, train and infer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Mux, Signal, Value

from ....golden.cores.zeroth_order.registers import Command
from ....golden.zo.deltas import DELTA
from ....golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES
from ...zo.deltas.walks import Walk, WalkRange
from ..image_reads import ImageReads

if TYPE_CHECKING:
    from .zeroth_order_engine import ZerothOrderEngine


class StepLoops:
    """Loops of a step over its perturbations: of the first part, and for each of those over the second part's.

    Without a cut there is one part: the outer loop's perturbations are of all words, and the inner one ends at once.

    Attributes
    ----------
    range : `WalkRange`
        Words of the perturbation in progress.
    is_cut : 1
        There are two parts.
    outer, inner : range(MOST_PERTURBATIONS)
        Numbers of the perturbation in progress.
    outer_ends, inner_ends : 1
        It is the last one of its loop.
    """

    def __init__(self) -> None:
        self.range, self.is_cut = Signal(WalkRange), Signal()
        self.outer, self.outer_ends, self.inner_ends = Signal(range(MOST_PERTURBATIONS)), Signal(), Signal()
        self.inner = Signal(range(MOST_PERTURBATIONS))

    def begin(self, m: Module) -> None:
        """Take the first perturbation of a step, in the module's current condition."""
        m.d.sync += [self.outer.eq(0), self.inner.eq(0), self.range.eq(self._first_range)]

    def advance(self, m: Module, following: str, end: str) -> None:
        """Take the next perturbation, in the current state: go on with state `following`, after the last with `end`."""
        m.next = following
        with m.If(self.range == WalkRange.FIRST):
            m.d.sync += self.range.eq(WalkRange.SECOND)
        with m.Elif(~self.inner_ends):
            m.d.sync += self.inner.eq(self.inner + 1)
        with m.Elif(~self.outer_ends):
            m.d.sync += [self.outer.eq(self.outer + 1), self.inner.eq(0), self.range.eq(self._first_range)]
        with m.Else():
            m.next = end

    @property
    def _first_range(self) -> Value:
        """Words of the outer loop's perturbations."""
        return Mux(self.is_cut, WalkRange.FIRST, WalkRange.ALL)


class CommandSequences:
    """States of each command, and the registers between them and the parts of the trainer that they start.

    A part of the trainer's module: its registers stand there.

    Parameters
    ----------
    trainer : ZerothOrderEngine
        Its parts are connected and driven.

    Attributes
    ----------
    infer : 1
        The command is `Command.INFER`; registered, as the command is stable long before it is used.
    """

    def __init__(self, trainer: ZerothOrderEngine) -> None:
        self._trainer, self._control, self._engine = trainer, trainer.control, trainer.engine
        self._deltas, self._slopes, self._updates = trainer.deltas, trainer.slopes, trainer.updates
        self._scheduler, self._logits, self._loops = trainer.scheduler, trainer.logits, StepLoops()
        self.infer, self._steps_left, self._last_step = Signal(), Signal(32), Signal()
        # a walk that is asked for, and the restart of the passes of the second part
        self._start, self._walk, self._final, self._restart = Signal(), Signal(Walk), Signal(), Signal()
        self._walked, self._release = Signal(), Signal(name="release")
        self._slope_begins, self._slopes_left = (
            Signal(name="begins_slope"),
            Signal(range(MOST_SLOPES + 1), name="slopes_left"),
        )

    def add(self, m: Module, images: ImageReads) -> None:
        """Add all sequences to the trainer's module."""
        position = self._position(m)
        self._walk_settings(m)
        self._loop_registers(m)
        self._pass_registers(m)
        self._walk_registers(m)
        self._steps(m, position)
        images.offer(m)
        m.d.comb += self._control.counts.coefficients_clipped.eq(self._slopes.clipped | self._updates.clipped)
        passed = self._hold_samples(m)
        empty = self._results_left(m)
        with m.FSM():
            self._idle(m, images)
            self._load(m, images)
            self._save_deltas(m)
            self._train(m, passed)
            self._infer(m, empty)
            self._end(m, empty)

    def _position(self, m: Module) -> Signal:
        """Position of the generator's word on offer."""
        period, deltas, control = self._trainer.spec.source.period, self._deltas, self._control
        position, marked, after = (Signal(range(period), name=name) for name in ("position", "marked", "after"))
        m.d.comb += after.eq(Mux(position == period - 1, 0, position + 1))
        with m.If(control.start):
            m.d.sync += [position.eq(control.settings.position), marked.eq(control.settings.position)]
        with m.Elif(deltas.word_done):
            m.d.sync += position.eq(Mux(deltas.replay, marked, after))
            with m.If(deltas.mark):
                m.d.sync += marked.eq(after)
        return position

    def _walk_settings(self, m: Module) -> None:
        """Set what all walks of a command have in common."""
        walk, settings = self._deltas.control, self._control.settings
        largest_eps = DELTA.fraction - self._trainer.numbers.format.fraction
        m.d.sync += [
            walk.eps.eq((1 << largest_eps) >> settings.eps_shift[:4]),
            walk.cut.eq(settings.cut),
            walk.gap.eq(settings.gap),
        ]

    @property
    def _perturbations(self) -> tuple[Value, Value]:
        """Perturbations of a step: of the first part, and of the second part for each of those."""
        settings = self._control.settings
        p1, p2 = (value[: MOST_PERTURBATIONS.bit_length()] for value in (settings.p1, settings.p2))
        return p1, p2

    def _loop_registers(self, m: Module) -> None:
        """Registers between the loops' counters and the states."""
        loops, settings, (p1, p2) = self._loops, self._control.settings, self._perturbations
        m.d.sync += [
            loops.is_cut.eq(settings.cut != 0),
            self._last_step.eq(self._steps_left == 1),
            loops.outer_ends.eq(loops.outer == p1 - 1),
            loops.inner_ends.eq(loops.inner == p2 - 1),
        ]

    def _pass_registers(self, m: Module) -> None:
        """Stages of the passes: those of the part whose words are perturbed."""
        passes, settings, words = self._engine.passes, self._control.settings, self._loops.range
        last_stage = len(self._trainer.mapping.forward.stages) - 1
        m.d.sync += [
            passes.cut.eq(settings.cut),
            passes.first.eq(Mux(words == WalkRange.SECOND, settings.cut, 0)),
            passes.last.eq(Mux(words == WalkRange.FIRST, settings.cut - 1, last_stage)),
            passes.record.eq(words == WalkRange.FIRST),
            passes.restore.eq(words == WalkRange.SECOND),
            passes.restart.eq(self._restart),
        ]

    def _walk_registers(self, m: Module) -> None:
        """Walks that the states ask for, and those of the updates."""
        walk, update = self._deltas.control, self._updates.walk
        m.d.sync += [
            walk.start.eq(self._start | update.valid),
            walk.walk.eq(Mux(update.valid, Walk.UPDATE, self._walk)),
            walk.range.eq(Mux(update.valid, update.payload.range, self._loops.range)),
            walk.final.eq(Mux(update.valid, update.payload.final, self._final)),
        ]
        m.d.comb += walk.coefficient.eq(update.payload.coefficient)

    def _steps(self, m: Module, position: Value) -> None:
        """Settings of the scheduler, the updates, the slopes and the logits."""
        control, settings, job = self._control, self._control.settings, self._scheduler.job
        slopes, updates, logits, (p1, p2) = self._slopes, self._updates, self._logits, self._perturbations
        m.d.comb += [
            *(getattr(job, name).eq(getattr(settings, name)) for name in ("order", "samples", "sample_count", "steps")),
            job.batch.eq(settings.batch),
            job.repeats.eq(Mux(self.infer, 1, p1)),
            updates.first.eq(p1),
            updates.second.eq(p2),
            updates.cut.eq(self._loops.is_cut),
            updates.scalars.eq(settings.scalars),
            slopes.start.eq(control.start),
            slopes.address.eq(settings.records),
            slopes.batch.eq(settings.batch),
            slopes.rate.eq(self._scheduler.step.payload.rate),
            slopes.shift.eq(settings.shift),
            slopes.position.payload.eq(position),
            updates.coefficient.valid.eq(slopes.o.valid),
            updates.coefficient.payload.eq(slopes.o.payload),
            logits.start.eq(control.start),
            logits.address.eq(settings.logits),
        ]

    def _hold_samples(self, m: Module) -> Value:
        """Hold samples until their step begins; its last one is followed by none of the next step's.

        Labels are taken in passes of the first part. Return whether all passes have ended since they were released.
        """
        engine, last_sample, slopes = self._engine, self._scheduler.step.payload.last_sample, self._slopes
        hold, before = Signal(init=1), Signal()
        begun, passes_over = Signal(last_sample.shape()), Signal(name="over")
        begins = engine.running & ~before & ~self.infer
        m.d.sync += before.eq(engine.running)
        if self._trainer.targets is None:
            m.d.sync += slopes.labels.sample.eq(begins & (self._loops.range != WalkRange.SECOND))
        with m.If(begins):
            m.d.sync += begun.eq(begun + 1)
            with m.If(begun == last_sample):
                m.d.sync += [hold.eq(1), begun.eq(0)]
        with m.If(self._release):
            m.d.sync += [hold.eq(0), passes_over.eq(0)]
        with m.Elif(self._control.ready):
            m.d.sync += hold.eq(1)
        with m.Elif(hold & engine.done & ~engine.running):
            m.d.sync += passes_over.eq(1)
        m.d.comb += [engine.hold.eq(hold), slopes.last_sample.eq(last_sample)]
        return passes_over

    def _results_left(self, m: Module) -> Value:
        """Count slopes and logits that are still to come; return whether all results are with the memory."""
        counts, slopes, logits, deltas = self._control.counts, self._slopes, self._logits, self._deltas
        # samples whose logits are still to come
        pending, empty = Signal(3), Signal()
        logit_done = logits.i.valid & logits.i.ready & logits.i.payload.last
        m.d.sync += [
            pending.eq(pending + (self._scheduler.begin & self.infer) - logit_done),
            empty.eq(slopes.empty & logits.empty & (pending == 0)),
            counts.saturations.eq(self._engine.clipped + deltas.clipped),
            self._walked.eq((self._walked | deltas.control.done) & ~self._start),
            self._slopes_left.eq(self._slopes_left + self._slope_begins - slopes.o.valid),
        ]
        return empty

    # -- states ----------------------------------------------------------------------------------------------------

    def _begin_walk(self, m: Module, walk: Walk, state: str) -> None:
        """Ask for a walk, and go on with a state."""
        m.d.comb += [self._start.eq(1), self._walk.eq(walk)]
        m.next = state

    def _idle(self, m: Module, images: ImageReads) -> None:
        """Begin a command."""
        control, save = self._control, self._trainer.memory.deltas_write.command
        with m.State("IDLE"):
            m.d.comb += control.ready.eq(1)
            m.d.sync += [self._steps_left.eq(control.settings.steps), self._slopes_left.eq(0)]
            m.d.sync += self._loops.range.eq(WalkRange.ALL)
            with m.If(control.start), m.Switch(control.command):
                with m.Case(Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN):
                    m.d.sync += [images.transferring.eq(1), images.requested.eq(1)]
                    m.next = "TRANSFER"
                with m.Case(Command.SAVE_DELTAS):
                    m.d.comb += self._deltas.begin_save.eq(1)
                    m.d.sync += save.valid.eq(1)
                    m.next = "SAVE"
                with m.Case(Command.INFER):
                    self._begin_walk(m, Walk.OFFSETS, "OFFSETS")

    def _load(self, m: Module, images: ImageReads) -> None:
        """Load and load deltas: read the image. New parameters have no deltas; a training goes on behind its image."""
        with m.State("TRANSFER"):
            with m.If(images.accepted):
                m.d.sync += images.requested.eq(0)
            with m.If(images.transferred):
                m.d.sync += images.transferring.eq(0)
                m.next = "TRANSFERRED"
        with m.State("TRANSFERRED"), m.Switch(self._control.command):
            with m.Case(Command.LOAD):
                self._begin_walk(m, Walk.CLEAR, "CLEAR")
            with m.Case(Command.TRAIN):
                m.d.comb += self._scheduler.job.start.eq(1)
                m.next = "STEP"
            with m.Default():
                m.next = "END"
        with m.State("CLEAR"), m.If(self._deltas.control.done):
            m.next = "END"

    def _save_deltas(self, m: Module) -> None:
        """Save deltas: write their image."""
        save = self._trainer.memory.deltas_write.command
        with m.State("SAVE"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            with m.If(self._deltas.saved):
                m.next = "END"

    def _train(self, m: Module, passed: Value) -> None:
        """Train, behind the generator's state: of each step its perturbations with their passes, then the updates."""
        step, loops = self._scheduler.step, self._loops
        with m.State("STEP"):
            loops.begin(m)
            with m.If(step.valid):
                m.next = "NEXT"
        with m.State("NEXT"):
            # a cycle for the registers that tell the last perturbation
            m.next = "PERTURB"
        self._perturb(m)
        with m.State("PASSES"), m.If(passed & self._walked):
            loops.advance(m, "NEXT", "SLOPES")
        with m.State("SLOPES"), m.If(self._slopes_left == 0):
            m.d.comb += step.ready.eq(1)
            m.next = "COEFFICIENTS"
        self._update(m)

    def _perturb(self, m: Module) -> None:
        """Make the offsets of both sides of a perturbation; release the samples as soon as the first are there."""
        loops, walk, position = self._loops, self._deltas.control, self._slopes.position
        with m.State("PERTURB"):
            has_slope = loops.range != WalkRange.FIRST
            m.d.comb += [
                self._final.eq(has_slope & loops.outer_ends & loops.inner_ends),
                position.valid.eq(has_slope),
                self._slope_begins.eq(has_slope & position.ready),
                self._restart.eq(position.ready & (loops.range == WalkRange.SECOND)),
            ]
            with m.If(position.ready):
                self._begin_walk(m, Walk.SIDES, "AHEAD")
        with m.State("AHEAD"), m.If(walk.allows_pass & ~walk.start):
            m.d.comb += self._release.eq(1)
            m.next = "PASSES"

    def _update(self, m: Module) -> None:
        """Make the walks of the updates, and end the step."""
        updates = self._updates
        with m.State("COEFFICIENTS"):
            m.d.comb += updates.start.eq(1)
            m.next = "UPDATE"
        with m.State("UPDATE"):
            m.d.comb += [updates.walk.ready.eq(1), updates.moved.eq(self._deltas.control.done)]
            with m.If(updates.done):
                m.d.comb += [self._control.counts.steps_done.eq(1), self._trainer.monitor.done.eq(1)]
                m.d.sync += self._steps_left.eq(self._steps_left - 1)
                m.next = "STEP"
                with m.If(self._last_step):
                    m.next = "END"

    def _infer(self, m: Module, empty: Value) -> None:
        """Infer: make the offsets of the deltas alone, then let the samples pass."""
        job = self._scheduler.job
        with m.State("OFFSETS"), m.If(self._deltas.control.done):
            m.d.comb += [job.start.eq(1), self._release.eq(1)]
            m.next = "INFER"
        with m.State("INFER"):
            m.d.comb += self._scheduler.step.ready.eq(1)
            with m.If(job.over & empty):
                m.next = "END"

    def _end(self, m: Module, empty: Value) -> None:
        """End of every command: all that it writes is in the memory."""
        with m.State("END"), m.If(empty & self._trainer.memory.settled):
            m.d.comb += self._control.finished.eq(1)
            m.next = "IDLE"
