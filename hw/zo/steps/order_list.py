"""Order list: reads the steps and their entries in order; what an entry's sample is, its heirs know."""

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
"""A step: its rate, and the number of its samples less one."""
LABEL_BITS = 32 - LABEL_BIT
STEPS_AHEAD = 2
"""Steps that wait: a step more than is computed."""


class OrderJob(wiring.Signature):
    """Steps to schedule, as the side sees it that gives them.

    Parameters
    ----------
    address : int
        Bits of a byte address.
    further : mapping of str to int, optional
        Bits of further members, by name.

    Attributes
    ----------
    start : Out, 1
        Begin; one cycle, only while `over`. The other members are the same until it is over.
    order, samples : Out, `address` bits
        Byte addresses of the order list and of the samples.
    sample_count, steps : Out, 32
        Samples in memory, steps in the order list.
    batch : Out, 9
        Samples for which a step has room in the order list.
    repeats : Out, 5
        Times that the samples of a step are fetched, at least 1.
    over : In, 1
        All steps and samples have been given.
    """

    def __init__(self, address: int = ADDRESS_BITS, further: Mapping[str, int] | None = None) -> None:
        outs = {"order": address, "samples": address, "sample_count": 32, "steps": 32}
        outs |= {"batch": LARGEST_BATCH.bit_length(), "repeats": MOST_PERTURBATIONS.bit_length()}
        outs |= further or {}
        super().__init__({"start": Out(1), **{name: Out(bits) for name, bits in outs.items()}, "over": In(1)})


class OrderList(wiring.Component):
    """Give each step, then fetch its samples, once or several times, one step behind the other.

    A beat of the order list is read at a time.

    Parameters
    ----------
    job : OrderJob
    errors : type of IntEnum
        The core's error codes, with ``BAD_STEP``, ``BAD_INDEX`` and ``BAD_LABEL``.
    address : int
        Bits of a byte address.
    before, behind : mapping of str to member
        Ports of the heir, before and behind those of the steps.

    Attributes
    ----------
    job : In, `OrderJob`
    order_read : Out, `ReadPort`
        Reads of the order list. Its beats are always taken.
    step : Out stream of `STEP`
        Steps, at most `STEPS_AHEAD` before they are taken.
    fault : Out, `CommandFault`
        A word of the order list is wrong: the value. Held until reset.
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

    # -- the heir's ------------------------------------------------------------------------------------------------

    @abstractmethod
    def label_limit(self) -> Value | int:
        """Labels that a sample can have."""

    @abstractmethod
    def begin_samples(self, m: Module, order: OrderPlace) -> None:
        """Add what is around the states of a sample."""

    @abstractmethod
    def look(self, m: Module, order: OrderPlace) -> None:
        """Prepare for the word at hand, in state ``CHECK``."""

    @abstractmethod
    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Take a sample's word, in state ``TAKE``; wrong ones are reported with `fail`."""

    @abstractmethod
    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """Add states of a sample that is taken; the last one counts `samples_left` and goes on with ``MOVE``."""

    # -- states ----------------------------------------------------------------------------------------------------

    def _read_states(self, m: Module, order: OrderPlace) -> None:
        """Begin a job; read the next beat of the order list, and look at the next word of a beat."""
        job, read = self.job, self.order_read
        first_beat = beat_number(job.order)
        with m.State("IDLE"):
            m.d.comb += job.over.eq(1)
            m.d.sync += [order.next_beat.eq(first_beat), order.step_beat.eq(first_beat), order.steps_left.eq(job.steps)]
            m.d.sync += [order.samples_left.eq(0), order.again.eq(0)]
            with m.If(job.start):
                m.next = "READ"
        with m.State("READ"):
            # commands are valid from a register: long paths begin there
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
        """Take a step's first word: give the step, unless its samples are fetched again."""
        self.fail(m, order, order.bad_step, "BAD_STEP")
        m.d.comb += steps.i.valid.eq(~order.bad_step & ~order.again)
        with m.If(order.again | (steps.i.valid & steps.i.ready)):
            m.d.sync += order.samples_left.eq(order.word[COUNT_BIT:LABEL_BIT] + 1)
            with m.If(~order.again):
                m.d.sync += [order.steps_left.eq(order.steps_left - 1), order.repeats.eq(self.job.repeats)]
            m.next = "MOVE"

    def _move_states(self, m: Module, order: OrderPlace) -> None:
        """Go on to the next word, and after a step's last one to the same step again or to the next one."""
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
        """Report the word at hand where it is wrong, unless there was a fault before."""
        with m.If(wrong & ~self.fault.failed):
            m.d.sync += [
                self.fault.failed.eq(1),
                self.fault.error.eq(self.errors[name]),
                order.failed.eq(order.word),
            ]


class OrderPlace:
    """Registers of a job's place in its order list, and of the word at hand.

    Attributes
    ----------
    beat, word, lane : 128 bits, 32 bits, range(WORDS)
        Beat of the list from the word at hand on, that word, and its number in the beat.
    next_beat, step_beat : as beat numbers
        Beat that is read next, and the first one of the step.
    steps_left, samples_left : as `steps` and `batch` of the job
        Steps to take, and samples of the step in progress.
    again, repeats : 1, 5
        The step's samples are fetched again, and how often they still are.
    bad_step, bad_index, bad_label : 1
        The word at hand is wrong, as that of a step or of a sample.
    failed : 32 bits
        The wrong word, for the fault.
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
