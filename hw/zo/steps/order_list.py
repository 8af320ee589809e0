"""Reader of the sample schedule; subclasses process the samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import ADDRESS_BITS, BEAT
from ....golden.zo.coefficient import LARGEST_BATCH, RATE
from ....golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from ....golden.zo.split import MOST_PERTURBATIONS
from ...axi.memory_port import CommandFault, ReadPort, beat_number, byte_address
from ...primitives.fifo import Fifo

STEP = data.StructLayout({"rate": RATE.width, "last_sample": (LARGEST_BATCH - 1).bit_length()})
"""A step: rate, and number of samples minus 1."""
LABEL_BITS = 32 - LABEL_BIT
STEPS_AHEAD = 2
"""Queue depth of steps: the step in progress, and one more."""


class OrderJob(wiring.Signature):
    """Job: steps to schedule; the directions are those of the source.

    Parameters
    ----------
    further : mapping of str to int, optional
        Bits of further members, by name.

    Attributes
    ----------
    start : Out, 1
        Begin the job; one cycle, only while `over` is high. The members below stay stable until the end of the job.
    order, samples : Out, `address` bits
        Byte addresses of the sample schedule and of the samples.
    sample_count, steps : Out, 32
        Number of samples in memory, number of steps in the schedule.
    batch : Out, 9
        Number of sample words that the schedule reserves for a step.
    repeats : Out, 5
        Number of times a step's samples are fetched, at least 1.
    over : In, 1
        High without a job: all steps and samples have been delivered.
    """

    def __init__(self, address: int = ADDRESS_BITS, further: Mapping[str, int] | None = None) -> None:
        outs = {"order": address, "samples": address, "sample_count": 32, "steps": 32}
        outs |= {"batch": LARGEST_BATCH.bit_length(), "repeats": MOST_PERTURBATIONS.bit_length()}
        outs |= further or {}
        super().__init__({"start": Out(1), **{name: Out(bits) for name, bits in outs.items()}, "over": In(1)})


class OrderList(wiring.Component):
    """Deliver each step, then fetch its samples, once or repeatedly; then continue with the next step.

    The schedule is read a beat at a time.

    Parameters
    ----------
    errors : type of IntEnum
        Error codes of the core, with ``BAD_STEP``, ``BAD_INDEX`` and ``BAD_LABEL``.
    before, behind : mapping of str to member
        Ports of the subclass, listed before and after the port `step`.

    Attributes
    ----------
    job : In, `OrderJob`
    order_read : Out, `ReadPort`
        Reads of the schedule; beats are always accepted.
    step : Out stream of `STEP`
        Steps; the queue holds up to `STEPS_AHEAD`.
    fault : Out, `CommandFault`
        An invalid schedule word, with its value. Held until reset.
    """

    def __init__(
        self,
        job: OrderJob,
        errors: type[IntEnum],
        address: int,
        before: Mapping[str, Any],
        behind: Mapping[str, Any],
    ) -> None:
        self.errors = errors
        super().__init__(
            {
                "job": In(job),
                "order_read": Out(ReadPort(address)),
                **before,
                "step": Out(stream.Signature(STEP)),
                **behind,
                "fault": Out(CommandFault(errors, address)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.steps = steps = Fifo(STEP, STEPS_AHEAD)
        wiring.connect(m, steps.o, wiring.flipped(self.step))
        job, read, order = self.job, self.order_read, OrderPlace(self.job)
        word = order.word
        m.d.sync += [
            order.bad_step.eq(word[LABEL_BIT:].any() | (word[COUNT_BIT:LABEL_BIT] >= job.batch)),
            order.bad_index.eq(word[:LABEL_BIT] >= job.sample_count),
            order.bad_label.eq(word[LABEL_BIT:] >= self.label_limit()),
        ]
        m.d.comb += [
            read.command.payload.address.eq(byte_address(order.next_beat)),
            read.command.payload.beats.eq(1),
            read.beats.ready.eq(1),
            steps.i.payload.rate.eq(word),
            steps.i.payload.last_sample.eq(word[COUNT_BIT:]),
            self.fault.address.eq(order.failed),
        ]
        self.begin_samples(m, order)
        with m.FSM():
            self._read_states(m, order)
            with m.State("TAKE"):
                with m.If(order.samples_left == 0):
                    self._take_step(m, order, steps)
                with m.Else():
                    self.take_sample(m, order)
            self.sample_states(m, order)
            self._move_states(m, order)
        return m

    # -- subclass hooks --------------------------------------------------------------------------------------------

    @abstractmethod
    def label_limit(self) -> Value | int:
        """Number of valid labels of a sample."""

    @abstractmethod
    def begin_samples(self, m: Module, order: OrderPlace) -> None:
        """Add logic outside the state machine."""

    @abstractmethod
    def look(self, m: Module, order: OrderPlace) -> None:
        """Prepare for the current word, in state ``CHECK``."""

    @abstractmethod
    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Process the word of a sample, in state ``TAKE``; report an invalid word with `fail`."""

    @abstractmethod
    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """Add states for an accepted sample; the last decrements `samples_left` and goes to ``MOVE``."""

    # -- states ----------------------------------------------------------------------------------------------------

    def _read_states(self, m: Module, order: OrderPlace) -> None:
        """States that begin a job, read the schedule's next beat, and check a beat's next word."""
        job, read = self.job, self.order_read
        first_beat = beat_number(job.order)
        with m.State("IDLE"):
            m.d.comb += job.over.eq(1)
            m.d.sync += [order.next_beat.eq(first_beat), order.step_beat.eq(first_beat), order.steps_left.eq(job.steps)]
            m.d.sync += [order.samples_left.eq(0), order.again.eq(0)]
            with m.If(job.start):
                m.next = "READ"
        with m.State("READ"):
            # timing: `valid` drives long paths, so it is a register
            m.d.sync += [order.lane.eq(0), read.command.valid.eq(~(read.command.valid & read.command.ready))]
            with m.If(read.command.valid & read.command.ready):
                m.next = "WAIT"
        with m.State("WAIT"):
            m.d.sync += order.beat.eq(read.beats.payload)
            with m.If(read.beats.valid):
                m.next = "CHECK"
        with m.State("CHECK"):
            self.look(m, order)
            m.next = "TAKE"

    def _take_step(self, m: Module, order: OrderPlace, steps: Fifo) -> None:
        """Process a step's first word: deliver the step, unless its samples are fetched again."""
        self.fail(m, order, order.bad_step, "BAD_STEP")
        m.d.comb += steps.i.valid.eq(~order.bad_step & ~order.again)
        with m.If(order.again | (steps.i.valid & steps.i.ready)):
            m.d.sync += order.samples_left.eq(order.word[COUNT_BIT:LABEL_BIT] + 1)
            with m.If(~order.again):
                m.d.sync += [order.steps_left.eq(order.steps_left - 1), order.repeats.eq(self.job.repeats)]
            m.next = "MOVE"

    def _move_states(self, m: Module, order: OrderPlace) -> None:
        """Go to the next word; after a step's last word, repeat the step or go to the next step."""
        with m.State("MOVE"):
            m.d.sync += [order.beat.eq(order.beat >> 32), order.lane.eq(order.lane + 1)]
            m.next = "CHECK"
            with m.If(order.samples_left == 0):
                m.next = "STEP"
            with m.Elif(order.lane == WORDS - 1):
                m.d.sync += order.next_beat.eq(order.next_beat + 1)
                m.next = "READ"
        with m.State("STEP"):
            next_step = order.step_beat + ((self.job.batch + WORDS) >> exact_log2(WORDS))
            m.d.sync += [order.repeats.eq(order.repeats - 1), order.again.eq(order.repeats != 1)]
            m.d.sync += order.next_beat.eq(order.step_beat)
            m.next = "READ"
            with m.If(order.repeats == 1):
                m.d.sync += [order.step_beat.eq(next_step), order.next_beat.eq(next_step)]
                with m.If(order.steps_left == 0):
                    m.next = "IDLE"

    def fail(self, m: Module, order: OrderPlace, wrong: Value, name: str) -> None:
        """Report the current word if `wrong`, unless a fault is already reported."""
        with m.If(wrong & ~self.fault.failed):
            m.d.sync += [
                self.fault.failed.eq(1),
                self.fault.error.eq(self.errors[name]),
                order.failed.eq(order.word),
            ]


class OrderPlace:
    """Registers of a job's position in the schedule, and of the current word.

    Attributes
    ----------
    beat, word, lane : 128 bits, 32 bits, range(WORDS)
        Rest of the beat from the current word on; the current word; index of this word in the beat.
    next_beat, step_beat : as beat numbers
        Beat to read next, and first beat of the step.
    steps_left, samples_left : as `steps` and `batch` of the job
        Steps left, and samples left in the current step.
    again, repeats : 1, 5
        The step's samples are fetched again; fetches left.
    bad_step, bad_index, bad_label : 1
        The current word has an invalid step; an invalid index; an invalid label.
    failed : 32 bits
        The invalid word, for the fault.
    """

    def __init__(self, job: wiring.PureInterface) -> None:
        order = beat_number(job.order)
        self.beat, self.lane = Signal(8 * BEAT, reset_less=True), Signal(range(WORDS), name="lane", reset_less=True)
        self.word = self.beat[:32]
        self.next_beat = Signal.like(order, name="next_beat", reset_less=True)
        self.step_beat = Signal.like(order, name="block", reset_less=True)
        self.steps_left = Signal.like(job.steps, name="steps_left", reset_less=True)
        self.samples_left = Signal.like(job.batch, name="in_step", reset_less=True)
        self.again, self.repeats = Signal(), Signal(job.repeats.shape(), name="repeats", reset_less=True)
        self.failed = Signal(32, name="failed", reset_less=True)
        self.bad_step, self.bad_index, self.bad_label = Signal(), Signal(), Signal(name="bad_label")
