"""Sequencer of zeroth order: commands and training steps, around the forward passes of any engine."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import reach
from ....golden.cores.zeroth_order.registers import Command
from ....golden.zo.split import MOST_SLOPES
from ...probe import probe
from ...zo.steps.slope_recorder import SlopeRecorder
from ...zo.steps.step_updates import StepUpdates
from ..image_reads import ImageReads
from ..memory_system import MemorySystem, buses
from ..shell import Control
from .forward_passes import ForwardPasses

WRITES = ("records", "logits", "deltas")
"""Writing requesters, the highest rank first."""


class ZerothOrderSequencer(wiring.Component):
    """Trains and infers with the forward passes of an engine, a command of `Command` at a time.

    A step makes a perturbation and runs the passes of its samples with both perturbation signs. It repeats this for
    each perturbation. After the last sample's loss difference, the deltas are updated along all perturbations of the
    step.

    With two parts, the passes of the first part store their outputs at the cut. The passes of the second part start
    from them, for one perturbation after the other. All updates of a step come at its end.

    Parameters
    ----------
    spec : ZerothOrderSpec
    passes : ForwardPasses
        Passes of the engine.

    Attributes
    ----------
    control : In, `Control`
        Interface of the shell.
    readerN, writerN : Out, `Read` and `Write`
        AXI4 ports to the external memory.
    monitor : Out, `Monitor`
        Updates of the deltas.
    """

    def __init__(self, spec: Any, passes: ForwardPasses) -> None:
        self.spec, self.passes, self.steps = spec, passes, passes.steps
        address = reach(spec.address)
        self.slopes, self.updates = SlopeRecorder(passes.classes, address, passes.loss), StepUpdates()
        self.memory = MemorySystem(
            passes.reads,
            WRITES,
            spec.registers.errors,
            spread=passes.spread,
            ports=spec.memory_ports,
            reader=spec.reader,
            writer=spec.writer,
            address=address,
            bus=spec.address,
        )
        passes.trainer = self
        super().__init__(
            {
                "control": In(Control(spec.registers, spec.address)),
                **buses(spec.memory_ports, spec.address),
                **passes.members,
                "monitor": Out(passes.monitor_of(spec)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shared = {"slopes": self.slopes, "updates": self.updates, "logits": self.passes.logits, "memory": self.memory}
        for name, part in {**self.passes.parts, **shared}.items():
            m.submodules[name] = part
        p1, p2 = self.passes.perturbations(m, self.control.settings)
        self.passes.connect(m, p1, p2)
        self._memory(m)
        self._results(m)
        self._steps(m, p1, p2)
        images = self.passes.images(m)
        images.offer(m)
        with m.FSM() as fsm:
            self._idle(m, images)
            self._load(m, images)
            self.passes.delta_states(m, self.memory.deltas_write.command)
            self._train(m)
            self.passes.other_states(m)
            with m.State("END"), m.If(self.passes.rests & self.memory.settled):
                m.d.comb += self.control.finished.eq(1)
                m.next = "IDLE"
        probe(self, fsm)
        return m

    # -- wires -----------------------------------------------------------------------------------------------------

    def _memory(self, m: Module) -> None:
        """Connect requesters, buses and faults."""
        memory, control, scheduler, fault = self.memory, self.control, self.passes.scheduler, self.control.fault
        for bus in buses(self.spec.memory_ports):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, scheduler.order_read, memory.order_read)
        wiring.connect(m, self.slopes.write, memory.records_write)
        wiring.connect(m, self.passes.logits.write, memory.logits_write)
        wiring.connect(m, self.passes.deltas.save, memory.deltas_write.beats)
        m.d.comb += [
            memory.stop.eq(control.abort),
            memory.hold.eq(control.hold),
            control.quiet.eq(memory.quiet),
            memory.deltas_write.command.payload.address.eq(control.settings.deltas),
            memory.deltas_write.command.payload.beats.eq(self.passes.delta_beats),
        ]
        # the memory's fault comes first: its lost beats may cause the others
        reported = [(part.fault.failed, part.fault.error, part.fault.address) for part in (memory, scheduler)]
        *others, (_, error, address) = faults = [*reported, *self.passes.faults]
        m.d.comb += [
            fault.failed.eq(Cat(failed for failed, *_ in faults).any()),
            fault.error.eq(error),
            fault.address.eq(address),
        ]
        for failed, error, address in reversed(others):
            with m.If(failed):
                m.d.comb += [fault.error.eq(error), fault.address.eq(address)]

    def _results(self, m: Module) -> None:
        """Route logits to the losses or to the memory."""
        slopes, logits = self.slopes, self.passes.logits
        source, logit, last, written = self.passes.results(m)
        m.d.comb += [
            *(into.i.payload.logit.eq(logit) for into in (slopes, logits)),
            *(into.i.payload.last.eq(last) for into in (slopes, logits)),
            slopes.i.valid.eq(source.valid & ~written),
            logits.i.valid.eq(source.valid & written),
            source.ready.eq(Mux(written, logits.i.ready, slopes.i.ready)),
        ]

    def _steps(self, m: Module, p1: Value, p2: Value) -> None:
        """Connect settings, and count perturbations and projected gradients."""
        control, settings, job, steps = self.control, self.control.settings, self.passes.scheduler.job, self.steps
        slopes, updates, step = self.slopes, self.updates, self.passes.scheduler.step
        self._slopes_left = Signal(range(MOST_SLOPES + 1), name="slopes_left")
        recorded = Signal(name="position_given")
        names = ("order", "samples", "sample_count", "steps", "batch")
        m.d.sync += [
            steps.infer.eq(reduce(or_, (control.command == other for other in self.spec.jobs[1:]))),
            steps.outer_ends.eq(steps.outer == p1 - 1),
            steps.inner_ends.eq((steps.inner == p2 - 1) | self.passes.single),
            self._slopes_left.eq(self._slopes_left + recorded - slopes.o.valid),
        ]
        m.d.comb += [
            *(getattr(job, name).eq(getattr(settings, name)) for name in names),
            recorded.eq(slopes.position.valid & slopes.position.ready),
            updates.first.eq(p1),
            updates.cut.eq(self.passes.cut),
            updates.scalars.eq(settings.scalars),
            updates.coefficient.valid.eq(slopes.o.valid),
            updates.coefficient.payload.eq(slopes.o.payload),
            slopes.start.eq(control.start),
            slopes.address.eq(settings.records),
            slopes.batch.eq(settings.batch),
            slopes.rate.eq(step.payload.rate),
            slopes.last_sample.eq(step.payload.last_sample),
            slopes.shift.eq(settings.shift),
            slopes.position.payload.eq(self.passes.position),
            control.counts.coefficients_clipped.eq(slopes.clipped | updates.clipped),
        ]

    # -- states ----------------------------------------------------------------------------------------------------

    def _idle(self, m: Module, images: ImageReads) -> None:
        control, save, passes = self.control, self.memory.deltas_write.command, self.passes
        with m.State("IDLE"):
            m.d.comb += control.ready.eq(1)
            m.d.sync += [self.steps.left.eq(control.settings.steps), self._slopes_left.eq(0)]
            with m.If(passes.idle(m)), m.Switch(control.command):
                with m.Case(Command.LOAD, Command.LOAD_DELTAS, Command.TRAIN):
                    m.d.sync += [images.transferring.eq(1), images.requested.eq(1)]
                    m.next = "TRANSFER"
                with m.Case(Command.SAVE_DELTAS):
                    m.d.sync += save.valid.eq(1)
                    m.next = "SAVE"
                with m.Case(*self.spec.jobs[1:]):
                    passes.begin_inference(m)

    def _load(self, m: Module, images: ImageReads) -> None:
        """Read a command's image; then clear deltas after new parameters, or begin to train."""
        with m.State("TRANSFER"):
            self.passes.transfer(m)
            with m.If(images.accepted):
                m.d.sync += images.requested.eq(0)
            with m.If(images.transferred):
                m.d.sync += images.transferring.eq(0)
                m.next = "TRANSFERRED"
        with m.State("TRANSFERRED"), m.Switch(self.control.command):
            with m.Case(Command.LOAD):
                self.passes.begin_clear(m)
            with m.Case(Command.TRAIN):
                m.d.comb += self.steps.begin.eq(1)
                m.next = "STEP"
            with m.Default():
                m.next = "END"

    def _train(self, m: Module) -> None:
        """Train after the generator's state is loaded: in each step the perturbations with their passes, then the
        updates.
        """
        step, steps, passes = self.passes.scheduler.step, self.steps, self.passes
        with m.State("STEP"):
            m.d.sync += [steps.outer.eq(0), steps.inner.eq(0)]
            passes.begin_outer(m)
            with m.If(step.valid):
                passes.begin_perturbation(m, passes.cut)
        passes.pass_states(m, lambda: self._advance(m), lambda: self._end_step(m))
        with m.State("SLOPES"), m.If(self._slopes_left == 0):
            m.d.comb += step.ready.eq(1)
            m.next = "COEFFICIENTS"
        self.update_states(m)

    def _advance(self, m: Module) -> None:
        """Continue with the next perturbation, or after the last perturbation with the coefficients."""
        steps, passes = self.steps, self.passes
        with m.If(passes.first):
            passes.begin_second(m)
        with m.Elif(~steps.inner_ends):
            m.d.sync += steps.inner.eq(steps.inner + 1)
            passes.begin_perturbation(m, 0)
        with m.Elif(~steps.outer_ends):
            m.d.sync += [steps.outer.eq(steps.outer + 1), steps.inner.eq(0)]
            passes.begin_outer(m)
            passes.begin_perturbation(m, passes.cut)
        with m.Else():
            m.next = "SLOPES"

    def update_states(self, m: Module) -> None:
        """States that update the deltas along a step's perturbations, from ``COEFFICIENTS`` on."""
        with m.State("COEFFICIENTS"):
            m.d.comb += self.updates.start.eq(1)
            m.next = "WALK"
        self.passes.update_states(m, lambda: self.end_update(m))

    def end_update(self, m: Module) -> None:
        """Count a trained step and end it."""
        m.d.comb += [self.control.counts.steps_done.eq(1), self.monitor.done.eq(1)]
        self._end_step(m)

    def _end_step(self, m: Module) -> None:
        """Continue with the next step, or end the command."""
        m.d.sync += self.steps.left.eq(self.steps.left - 1)
        m.next = "STEP"
        with m.If(self.passes.last_step):
            m.next = "END"
