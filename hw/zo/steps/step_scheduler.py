"""Step scheduler: reads the order list and fetches the samples of one step after the other, ahead of the passes."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import ADDRESS_BITS, BEAT
from ....golden.zo.coefficient import LARGEST_BATCH, RATE
from ....golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from ....golden.zo.split import MOST_PERTURBATIONS
from ...axi.bursts import command
from ...axi.memory_port import CommandFault, ReadPort, beat_number, byte_address
from ...primitives.fifo import Fifo

STEP = data.StructLayout({"rate": RATE.width, "last_sample": (LARGEST_BATCH - 1).bit_length()})
"""A step: its rate, and the number of its samples less one."""
LABEL_BITS = 32 - LABEL_BIT
STEPS_AHEAD, LABELS_AHEAD = 2, 4
"""Steps and labels that wait: a step more than is computed, and as many samples as are fetched and not yet done."""


class StepJob(wiring.Signature):
    """Steps to schedule, as the side sees it that gives them.

    Parameters
    ----------
    address : int
        Bits of a byte address.

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

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        outs = {"order": address, "samples": address, "sample_count": 32, "steps": 32}
        outs |= {"batch": LARGEST_BATCH.bit_length(), "repeats": MOST_PERTURBATIONS.bit_length()}
        super().__init__({"start": Out(1), **{name: Out(bits) for name, bits in outs.items()}, "over": In(1)})


class StepScheduler(wiring.Component):
    """Give each step, then fetch its samples and give their labels, once or several times, one step behind the other.

    A beat of the order list is read at a time. An entry takes five cycles, one for each bit of its index, and the
    transfer of its sample.

    Parameters
    ----------
    sample_beats : int
        Beats of a sample's image.
    labels : int
        Labels that a sample can have.
    errors : type of IntEnum
        The core's error codes, with ``BAD_STEP``, ``BAD_INDEX`` and ``BAD_LABEL``.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    job : In, `StepJob`
    order_read : Out, `ReadPort`
        Reads of the order list. Its beats are always taken.
    sample_command : Out stream of `command`
        Read commands of samples; their beats go elsewhere.
    room : In, 1
        There is room for a sample.
    begin : Out, 1
        A sample's read command was accepted in the cycle before; one cycle.
    done : In, 1
        All beats of the sample have come; one cycle.
    step : Out stream of `STEP`
        Steps, at most `STEPS_AHEAD` before they are taken.
    label : Out stream of `LABEL_BITS` bits
        Labels of the samples.
    fault : Out, `CommandFault`
        A word of the order list is wrong: the value. Held until reset.
    """

    def __init__(self, sample_beats: int, labels: int, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        self.sample_beats, self.labels, self.errors = sample_beats, labels, errors
        super().__init__(
            {
                "job": In(StepJob(address)),
                "order_read": Out(ReadPort(address)),
                "sample_command": Out(command(address)),
                "room": In(1),
                "begin": Out(1),
                "done": In(1),
                "step": Out(stream.Signature(STEP)),
                "label": Out(stream.Signature(LABEL_BITS)),
                "fault": Out(CommandFault(errors, address)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.steps = steps = Fifo(STEP, STEPS_AHEAD)
        m.submodules.labels = labels = Fifo(LABEL_BITS, LABELS_AHEAD)
        wiring.connect(m, steps.o, wiring.flipped(self.step))
        wiring.connect(m, labels.o, wiring.flipped(self.label))
        job, read, order = self.job, self.order_read, _OrderPlace(self.job)
        word = order.word
        m.d.sync += [
            order.bad_step.eq(word[LABEL_BIT:].any() | (word[COUNT_BIT:LABEL_BIT] >= job.batch)),
            order.bad_index.eq(word[:LABEL_BIT] >= job.sample_count),
            order.bad_label.eq(word[LABEL_BIT:] >= self.labels),
        ]
        m.d.comb += [
            read.command.payload.address.eq(byte_address(order.next_beat)),
            read.command.payload.beats.eq(1),
            read.beats.ready.eq(1),
            steps.i.payload.rate.eq(word),
            steps.i.payload.last_sample.eq(word[COUNT_BIT:]),
            labels.i.payload.eq(word[LABEL_BIT:]),
            self.sample_command.payload.address.eq(byte_address(order.sample)),
            self.sample_command.payload.beats.eq(self.sample_beats),
        ]
        # a register: a sample's start must not wait for the arbiter's ready
        fetches = self.sample_command.valid & self.sample_command.ready
        m.d.sync += self.begin.eq(fetches)
        m.d.comb += self.fault.address.eq(order.failed)
        with m.FSM():
            self._read_states(m, order)
            with m.State("TAKE"):
                with m.If(order.samples_left == 0):
                    self._take_step(m, order, steps)
                with m.Else():
                    self._take_sample(m, order)
            self._fetch_states(m, order, labels, fetches)
            self._move_states(m, order)
        return m

    def _read_states(self, m: Module, order: _OrderPlace) -> None:
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
            m.d.sync += [order.sample.eq(beat_number(job.samples)), order.index.eq(order.word)]
            m.d.sync += order.stride.eq(self.sample_beats)
            m.next = "TAKE"

    def _take_step(self, m: Module, order: _OrderPlace, steps: Fifo) -> None:
        """Take a step's first word: give the step, unless its samples are fetched again."""
        self._fail(m, order, order.bad_step, "BAD_STEP")
        m.d.comb += steps.i.valid.eq(~order.bad_step & ~order.again)
        with m.If(order.again | (steps.i.valid & steps.i.ready)):
            m.d.sync += order.samples_left.eq(order.word[COUNT_BIT:LABEL_BIT] + 1)
            with m.If(~order.again):
                m.d.sync += [order.steps_left.eq(order.steps_left - 1), order.repeats.eq(self.job.repeats)]
            m.next = "MOVE"

    def _take_sample(self, m: Module, order: _OrderPlace) -> None:
        """Take a sample's word: find its address, one bit of its index a cycle: there is time, and no DSP."""
        index, stride = order.index, order.stride
        self._fail(m, order, order.bad_index, "BAD_INDEX")
        self._fail(m, order, ~order.bad_index & order.bad_label, "BAD_LABEL")
        m.d.sync += [index.eq(index >> 1), stride.eq(stride << 1)]
        m.d.sync += order.sample.eq(order.sample + (stride & index[0].replicate(len(stride))))
        with m.If(~index.any() & ~order.bad_index & ~order.bad_label):
            m.next = "FETCH"

    def _fetch_states(self, m: Module, order: _OrderPlace, labels: Fifo, fetches: Value) -> None:
        """Ask for a sample and give its label; wait until it is there."""
        with m.State("FETCH"):
            m.d.sync += self.sample_command.valid.eq(self.room & labels.i.ready & ~fetches)
            with m.If(fetches):
                m.d.comb += labels.i.valid.eq(1)
                m.d.sync += order.samples_left.eq(order.samples_left - 1)
                m.next = "ARRIVE"
        with m.State("ARRIVE"), m.If(self.done):
            m.next = "MOVE"

    def _move_states(self, m: Module, order: _OrderPlace) -> None:
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

    def _fail(self, m: Module, order: _OrderPlace, wrong: Value, name: str) -> None:
        """Report the word at hand where it is wrong, unless there was a fault before."""
        with m.If(wrong & ~self.fault.failed):
            m.d.sync += [
                self.fault.failed.eq(1),
                self.fault.error.eq(self.errors[name]),
                order.failed.eq(order.word),
            ]


class _OrderPlace:
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
    sample, stride, index
        Beat of a sample, the distance of samples times a power of two, and the bits of its index that are to be added.
    """

    def __init__(self, job: wiring.PureInterface) -> None:
        order, samples = beat_number(job.order), beat_number(job.samples)
        self.beat, self.lane = Signal(8 * BEAT, reset_less=True), Signal(range(WORDS), name="lane", reset_less=True)
        self.word = self.beat[:32]
        self.next_beat = Signal.like(order, name="next_beat", reset_less=True)
        self.step_beat = Signal.like(order, name="block", reset_less=True)
        self.steps_left = Signal.like(job.steps, name="steps_left", reset_less=True)
        self.samples_left = Signal.like(job.batch, name="in_step", reset_less=True)
        self.again, self.repeats = Signal(), Signal(job.repeats.shape(), name="repeats", reset_less=True)
        self.failed = Signal(32, name="failed", reset_less=True)
        self.bad_step, self.bad_index, self.bad_label = Signal(), Signal(), Signal(name="bad_label")
        self.sample = Signal.like(samples, name="sample", reset_less=True)
        self.stride = Signal.like(samples, name="stride", reset_less=True)
        self.index = Signal(LABEL_BIT, reset_less=True)
