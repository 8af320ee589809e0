"""Sequences of the commands of `zostream`: load, load deltas, save deltas, train, infer and cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from ....golden.cores.zostream.registers import Command
from ....golden.stream.weights.word_offsets import Kind
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
from ...primitives.registers import register
from ...zo.deltas.walks import WalkRange
from ..image_reads import ImageReads

if TYPE_CHECKING:
    from .stream_trainer import StreamTrainer


class CommandSequences:
    """States of each command, and the registers between them and the parts of the trainer that they start.

    A part of the trainer's module: its registers stand there.

    Parameters
    ----------
    trainer : StreamTrainer
        Its parts are connected and driven.

    Attributes
    ----------
    infer : 1
        Nothing is perturbed: `Command.INFER` or `Command.CACHE`; registered, as the command is stable long before.
    first : 1
        The perturbation, or the image of deltas, is that of the part before the cut.
    before : 1
        Passes end before the cut, and what passes there is kept.
    reads_logits : 1
        Sentences are those of the results that are read.
    no_program, no_cut, no_split : 1
        A command began that needs a program, one of which the first part is fixed, or one of which it is not, and there
        is none; held until reset.
    no_room : 1
        A command began whose image of deltas would end beyond the address bits; held until reset.
    """

    def __init__(self, trainer: StreamTrainer) -> None:
        self._trainer, self._control, self._engine = trainer, trainer.control, trainer.engine
        self._deltas, self._slopes, self._updates = trainer.deltas, trainer.slopes, trainer.updates
        self._scheduler, self._passes, self._program = trainer.scheduler, trainer.passes, trainer.program
        self.infer, self.no_program, self.reads_logits = Signal(), Signal(), Signal(name="reads_logits")
        self.before, self.no_cut, self.no_split = Signal(), Signal(), Signal(name="no_split")
        self.no_room = Signal(name="no_room")
        self._split, self._keeps = Signal(), Signal()
        # what the first part gave is in the memory
        self.first, self._stored = Signal(), Signal()
        # the scheduler begins, a cycle later: what a command is checked for is late
        self._begins = Signal(name="begins_job")
        self._steps_left = Signal(32)
        # the perturbations of the step in progress: of the first or only part, of the other one for each of those
        self._outer, self._outer_ends = Signal(range(MOST_PERTURBATIONS)), Signal()
        self._inner, self._inner_ends = Signal(range(MOST_PERTURBATIONS)), Signal()
        self._final, self._several = Signal(), Signal()
        self._slopes_left = Signal(range(MOST_SLOPES + 1), name="slopes_left")
        self._loaded = Signal(name="loaded")
        self._position_given, self._asks_deltas, self._empty, self._fetched = (
            Signal(),
            Signal(name="asks_deltas"),
            Signal(name="empty"),
            Signal(name="fetched"),
        )

    def add(self, m: Module, images: ImageReads) -> None:
        """Add all sequences to the trainer's module."""
        self._settings(m)
        self._results(m)
        self._load_samples(m)
        images.offer(m)
        with m.FSM():
            self._idle(m, images)
            self._load(m, images)
            self._save_deltas(m)
            self._perturb(m)
            self._pass(m)
            self._update(m)
            self._end(m)

    def _settings(self, m: Module) -> None:
        """Connect settings, which stay the same during a command."""
        control, settings, job = self._control, self._control.settings, self._scheduler.job
        slopes, updates, logits = self._slopes, self._updates, self._trainer.logits
        bits = MOST_PERTURBATIONS.bit_length()
        # the registers of settings reach far
        p1, p2 = (register(m, f"own_{name}", getattr(settings, name)[:bits]) for name in ("p1", "p2"))
        # of the part behind the cut, with which the first one is reckoned
        turns, repeats = Signal.like(job.turns, name="turns"), Signal.like(job.repeats, name="repeats")
        product = Signal.like(repeats, name="product")
        largest_eps = DELTA.fraction - PerturbationTable(self._trainer.spec.generator).fraction
        names = ("order", "samples", "index", "cache", "sample_count", "steps", "batch")
        m.d.comb += job.start.eq(self._begins)
        m.d.sync += [
            self._begins.eq(0),
            self.infer.eq((control.command == Command.INFER) | (control.command == Command.CACHE)),
            self._keeps.eq(control.command == Command.CACHE),
            self._split.eq(self._program.split & (control.command == Command.TRAIN)),
            self.before.eq(self._keeps | (self.first & self._split)),
            turns.eq(Mux(self._split, p2 + 1, 1)),
            product.eq(p1 * p2),
            repeats.eq(Mux(self.infer, 1, p1 + Mux(self._split, product, 0))),
            self._engine.amount.eq(Mux(self.infer, 0, (1 << largest_eps) >> settings.eps_shift[:4])),
            self._outer_ends.eq(self._outer == p1 - 1),
            self._inner_ends.eq((self._inner == p2 - 1) | ~self._split),
            self._several.eq((p1 != 1) | (self._split & (p2 != 1))),
        ]
        m.d.comb += [
            *(getattr(job, name).eq(getattr(settings, name)) for name in names),
            self._final.eq(self._outer_ends & self._inner_ends & ~self.first),
            job.repeats.eq(repeats),
            job.turns.eq(turns),
            job.upper.eq(settings.cached[0] & ~self._keeps),
            job.pooled.eq(self._program.pooled),
            job.labels.eq(self._program.outputs),
            job.capacity.eq(self._program.capacity),
            updates.first.eq(p1),
            updates.second.eq(Mux(self._split, p2, 1)),
            updates.cut.eq(self._split),
            updates.scalars.eq(settings.scalars),
            slopes.start.eq(control.start),
            slopes.address.eq(settings.records),
            slopes.batch.eq(settings.batch),
            slopes.rate.eq(self._scheduler.step.payload.rate),
            slopes.last_sample.eq(self._scheduler.step.payload.last_sample),
            slopes.shift.eq(settings.shift),
            slopes.position.payload.eq(self._deltas.at),
            updates.coefficient.valid.eq(slopes.o.valid),
            updates.coefficient.payload.eq(slopes.o.payload),
            logits.start.eq(control.start | (self._trainer.reader.begins & self.before)),
            logits.address.eq(Mux(self.before, byte_address(self._passes.entry.kept), settings.logits)),
            logits.sample_beats.eq(Mux(self.before, self._program.kept_beats, self._program.logit_beats)),
            self._deltas.start.eq(control.start),
            self._deltas.position.eq(settings.position),
        ]

    def _results(self, m: Module) -> None:
        """Count what was clipped, and results that are still to come."""
        counts, slopes, engine = self._control.counts, self._slopes, self._engine
        clipped = Mux(self.infer, engine.clipped >> 1, engine.clipped)  # both sides are alike without a perturbation
        m.d.sync += [
            counts.saturations.eq(Mux(engine.done, clipped, 0)),
            counts.offsets_clipped.eq(0),
            self._empty.eq(slopes.empty & self._trainer.logits.empty),
            self._fetched.eq(engine.fetched),
            self._slopes_left.eq(self._slopes_left + self._position_given - slopes.o.valid),
        ]
        m.d.comb += [
            counts.coefficients_clipped.eq(slopes.clipped | self._updates.clipped),
            self._position_given.eq(slopes.position.valid & slopes.position.ready),
        ]

    def _load_samples(self, m: Module) -> None:
        """Load the samples of a pass as soon as its sentences are known: also while deltas and offsets change.

        What passes the cut in a step is to be in the memory first.
        """
        passes, engine = self._passes, self._engine
        with m.FSM(name="samples"):
            with m.State("WAIT"), m.If(passes.complete & (~passes.upper | ~self._split | self._stored)):
                m.d.comb += [engine.load.eq(1), self._trainer.samples.start.eq(1)]
                m.next = "LOAD"
            with m.State("LOAD"), m.If(engine.loaded):
                m.next = "LOADED"
            with m.State("LOADED"):
                m.d.comb += self._loaded.eq(1)
                with m.If(passes.clear):
                    m.next = "WAIT"

    def _rows(self, m: Module, kind: Kind, first: Value) -> None:
        """Make a command for all rows of deltas of the first part, or of the last or only one."""
        command, program = self._deltas.command.payload, self._program
        m.d.comb += [
            command.kind.eq(kind),
            command.table.eq(program.cut & ~first),
            command.count.eq(Mux(first, program.first_rows, program.rows)),
        ]

    def _command(self, m: Module, kind: Kind, following: str, first: Value | None = None) -> None:
        """Give a command for all rows of deltas, in the current state, and go on with a state."""
        command = self._deltas.command
        self._rows(m, kind, self.first if first is None else first)
        m.d.comb += command.valid.eq(1)
        with m.If(command.ready):
            m.next = following

    # -- states ----------------------------------------------------------------------------------------------------

    def _idle(self, m: Module, images: ImageReads) -> None:
        """Begin a command."""
        control, save = self._control, self._trainer.memory.deltas_write.command
        settings, trains = control.settings, control.command == Command.TRAIN
        # both are registers, as a command begins late and much waits for it
        conditions, wrong, refused = Signal(4), Signal(4), Signal()
        cached = (trains | (control.command == Command.INFER)) & settings.cached[0]
        fixed = self._program.cut & ~self._program.split
        moves = control.command.matches(Command.LOAD_DELTAS, Command.SAVE_DELTAS)
        # the first beat behind the image of deltas, and the number of beats that there are
        most = 1 << len(settings.deltas) - OFFSET_BITS
        end = Signal(range(2 * most), name="deltas_end", reset_less=True)
        m.d.sync += end.eq(beat_number(settings.deltas) + save.payload.beats)
        m.d.comb += conditions.eq(
            Cat(
                (control.command != Command.LOAD) & ~self._program.valid,
                (cached | (control.command == Command.CACHE)) & ~fixed,
                trains & ~self._program.split & (settings.p2 != 1),
                moves & (end > most),
            )
        )
        m.d.sync += [wrong.eq(conditions), refused.eq(conditions.any())]
        with m.State("IDLE"):
            m.d.comb += control.ready.eq(1)
            m.d.sync += [self._steps_left.eq(control.settings.steps), self._slopes_left.eq(0)]
            # both parts' deltas are loaded and saved, the first ones first
            m.d.sync += self.first.eq(self._program.cut)
            with m.If(control.start & refused):
                m.d.sync += Cat(self.no_program, self.no_cut, self.no_split, self.no_room).eq(wrong)
                m.next = "FAILED"
            with m.Elif(control.start), m.Switch(control.command):
                with m.Case(Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN):
                    m.d.comb += self._program.load.eq(control.command == Command.LOAD)
                    m.d.sync += self._asks_deltas.eq(control.command == Command.LOAD_DELTAS)
                    m.d.sync += [images.transferring.eq(1), images.requested.eq(1)]
                    m.next = "TRANSFER"
                with m.Case(Command.SAVE_DELTAS):
                    m.d.sync += save.valid.eq(1)
                    m.next = "SAVE"
                with m.Case(Command.INFER, Command.CACHE):
                    m.d.sync += self._begins.eq(1)
                    m.next = "STEP"

    def _load(self, m: Module, images: ImageReads) -> None:
        """Read an image: load and load deltas. A new program has no deltas; a training goes on behind its image."""
        command = self._deltas.command
        with m.State("TRANSFER"):
            self._rows(m, Kind.LOAD, self.first)
            m.d.comb += command.valid.eq(self._asks_deltas)
            with m.If(command.ready):
                m.d.sync += self._asks_deltas.eq(0)
            with m.If(self._deltas.done & self.first):
                m.d.sync += [self._asks_deltas.eq(self._control.command == Command.LOAD_DELTAS), self.first.eq(0)]
            with m.If(images.accepted):
                m.d.sync += images.requested.eq(0)
            with m.If(images.transferred):
                m.d.sync += images.transferring.eq(0)
                m.next = "TRANSFERRED"
        with m.State("TRANSFERRED"), m.Switch(self._control.command):
            with m.Case(Command.LOAD):
                m.d.sync += self.first.eq(self._program.cut)
                m.next = "CLEAR"
            with m.Case(Command.TRAIN):
                m.d.sync += self._begins.eq(1)
                m.next = "STEP"
            with m.Default():
                m.next = "END"
        with m.State("CLEAR"):
            self._command(m, Kind.CLEAR, "CLEARED")
        with m.State("CLEARED"), m.If(self._deltas.done):
            m.d.sync += self.first.eq(0)
            m.next = "END"
            with m.If(self.first):
                m.next = "CLEAR"

    def _save_deltas(self, m: Module) -> None:
        """Save deltas: write their image."""
        save = self._trainer.memory.deltas_write.command
        with m.State("SAVE"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            self._command(m, Kind.SAVE, "SAVING")
        with m.State("SAVING"):
            with m.If(save.ready):
                m.d.sync += save.valid.eq(0)
            with m.If(self._deltas.done):
                m.d.sync += self.first.eq(0)
                m.next = "END"
                with m.If(self.first):
                    m.next = "SAVE"

    def _perturb(self, m: Module) -> None:
        """Begin a step; make a perturbation, and skip the words behind it."""
        step, deltas, position = self._scheduler.step, self._deltas, self._slopes.position
        with m.State("STEP"):
            m.d.sync += [self._outer.eq(0), self._inner.eq(0), self.first.eq(self._split), self._stored.eq(0)]
            with m.If(step.valid):
                m.next = "PASS"
                with m.If(~self.infer):
                    self._next_perturbation(m, self._split)
        with m.State("POSITION"):
            m.d.comb += position.valid.eq(1)
            with m.If(position.ready):
                m.next = "PERTURB"
        with m.State("PERTURB"):
            # behind the last of several perturbations the generator returns to the first one
            m.d.comb += [
                deltas.command.payload.factor.eq(self._engine.amount),
                deltas.command.payload.replay.eq(self._final & self._several),
            ]
            self._command(m, Kind.PERTURB, "PERTURBED")
        with m.State("PERTURBED"), m.If(deltas.done):
            m.d.sync += self._control.counts.offsets_clipped.eq(deltas.clipped)
            m.next = "GAP"
        self._skip(m, "GAP", "PASS", without=self._final | self.first)

    def _next_perturbation(self, m: Module, first: Value) -> None:
        """Go on with a perturbation; the first part's have no slope, and so no position."""
        m.next = "POSITION"
        with m.If(first):
            m.next = "PERTURB"

    def _skip(self, m: Module, state: str, following: str, without: Value, mark: Value | int = 0) -> None:
        """Skip the words of the generator behind a perturbation, but where they are none."""
        command, gap = self._deltas.command, self._control.settings.gap
        with m.State(state):
            m.d.comb += [
                command.payload.kind.eq(Kind.SKIP),
                command.payload.count.eq(gap),
                command.payload.mark.eq(mark),
            ]
            with m.If(without | (gap == 0)):
                m.next = following
            with m.Else():
                m.d.comb += command.valid.eq(1)
                with m.If(command.ready):
                    m.next = f"{state}_SKIPPED"
        with m.State(f"{state}_SKIPPED"), m.If(self._deltas.done):
            m.next = following

    def _pass(self, m: Module) -> None:
        """Passes of a perturbation, or of a step of samples alone: run the program, read the logits."""
        engine, passes, reader, step = self._engine, self._passes, self._trainer.reader, self._scheduler.step
        with m.State("PASS"), m.If(self._loaded):
            m.d.comb += [engine.start.eq(1), self._program.run.eq(1)]
            m.d.comb += [self._program.behind.eq(passes.upper), self._program.before.eq(self.before)]
            m.next = "RUN"
        with m.State("RUN"), m.If(engine.done):
            m.d.comb += reader.start.eq(1)
            m.next = "LOGITS"
        with m.State("LOGITS"):
            m.d.comb += self.reads_logits.eq(1)
            with m.If(reader.done):
                m.d.comb += passes.clear.eq(1)
                m.next = "PASS"
                with m.If(passes.last):
                    m.next = "PASSED"
        with m.State("PASSED"):
            with m.If(self.infer):
                m.d.comb += step.ready.eq(1)
                self._end_step(m)
            with m.Elif(self.first):
                m.next = "STORE"
            with m.Elif(self._final):
                m.next = "SLOPES"
            with m.Elif(self._inner_ends):
                m.d.sync += [self._outer.eq(self._outer + 1), self._inner.eq(0)]
                m.d.sync += [self.first.eq(self._split), self._stored.eq(0)]
                self._next_perturbation(m, self._split)
            with m.Else():
                m.d.sync += self._inner.eq(self._inner + 1)
                m.next = "POSITION"
        with m.State("STORE"), m.If(self._empty & self._trainer.memory.settled):
            m.d.sync += [self._stored.eq(1), self.first.eq(0)]
            m.next = "POSITION"

    def _update(self, m: Module) -> None:
        """Move the deltas along a step's perturbations; of several each is made again."""
        updates, deltas, several = self._updates, self._deltas, self._several
        walk, command, gap = updates.walk, deltas.command, self._control.settings.gap
        marks, first = updates.walk.payload.final & several, updates.walk.payload.range == WalkRange.FIRST
        with m.State("SLOPES"), m.If(self._slopes_left == 0):
            m.d.comb += self._scheduler.step.ready.eq(1)
            m.next = "COEFFICIENTS"
        with m.State("COEFFICIENTS"):
            m.d.comb += updates.start.eq(1)
            m.next = "WALK"
        with m.State("WALK"), m.If(walk.valid):
            m.next = "UPDATE"
            with m.If(several):
                m.next = "AGAIN"
        with m.State("AGAIN"):
            m.d.comb += command.payload.mark.eq(marks & (gap == 0))
            self._command(m, Kind.PERTURB, "MADE", first)
        with m.State("MADE"), m.If(deltas.done):
            m.next = "UPDATE"
        with m.State("UPDATE"):
            m.d.comb += command.payload.factor.eq(walk.payload.coefficient)
            self._command(m, Kind.UPDATE, "UPDATED", first)
        with m.State("UPDATED"), m.If(deltas.done):
            m.next = "BEHIND"
        self._skip(m, "BEHIND", "MOVED", without=first, mark=marks)
        with m.State("MOVED"):
            # the walk is taken and over at once: what it says stays until then
            m.d.comb += walk.ready.eq(1)
            m.next = "NEXT"
        with m.State("NEXT"):
            m.d.comb += updates.moved.eq(1)
            m.next = "WALK"
            with m.If(updates.done):
                m.d.comb += self._control.counts.steps_done.eq(1)
                self._end_step(m)

    def _end_step(self, m: Module) -> None:
        """Go on with the next step, or end the command, in the current state."""
        m.d.sync += self._steps_left.eq(self._steps_left - 1)
        m.next = "STEP"
        with m.If(self._steps_left == 1):
            m.next = "END"

    def _end(self, m: Module) -> None:
        """End of every command: all that it writes is in the memory, and all that it reads has come."""
        with m.State("END"), m.If(self._empty & self._fetched & self._trainer.memory.settled):
            m.d.comb += self._control.finished.eq(1)
            m.next = "IDLE"
        with m.State("FAILED"):
            pass
