"""Step scheduler: reads the order list and fetches the samples of one step after the other, ahead of the passes."""

from enum import IntEnum

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import ADDRESS_BITS, BEAT
from ....golden.nn.array.mapping import Mapping
from ....golden.zo.coefficient import LARGEST_BATCH, RATE
from ....golden.zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS
from ....golden.zo.split import MOST_PERTURBATIONS
from ...axi.bursts import command
from ...axi.memory_port import Fault, ReadPort, beat_number, byte_address
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
    mapping : Mapping
        The network: size of a sample.
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
    fault : Out, `Fault`
        A word of the order list is wrong: the value. Held until reset.
    """

    def __init__(self, mapping: Mapping, labels: int, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        self.mapping, self.labels, self.errors = mapping, labels, errors
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
                "fault": Out(Fault(errors, address)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job, read = self.job, self.order_read
        m.submodules.steps = steps = Fifo(STEP, STEPS_AHEAD)
        m.submodules.labels = labels = Fifo(LABEL_BITS, LABELS_AHEAD)
        wiring.connect(m, steps.o, wiring.flipped(self.step))
        wiring.connect(m, labels.o, wiring.flipped(self.label))
        beat, lane = Signal(8 * BEAT), Signal(range(WORDS))
        word = beat[:32]
        order, samples = beat_number(job.order), beat_number(job.samples)
        next_beat, block = Signal.like(order), Signal.like(order)
        steps_left, in_step = Signal.like(job.steps), Signal.like(job.batch)
        again, repeats = Signal(), Signal(job.repeats.shape())
        bad_step, bad_index, bad_label = Signal(), Signal(), Signal()
        # the address of a sample, one bit of its index a cycle: there is time, and no DSP
        address, stride, index = Signal.like(samples), Signal.like(samples), Signal(LABEL_BIT)
        m.d.sync += [
            bad_step.eq(word[LABEL_BIT:].any() | (word[COUNT_BIT:LABEL_BIT] >= job.batch)),
            bad_index.eq(word[:LABEL_BIT] >= job.sample_count),
            bad_label.eq(word[LABEL_BIT:] >= self.labels),
        ]
        m.d.comb += [
            read.command.payload.address.eq(byte_address(next_beat)),
            read.command.payload.beats.eq(1),
            read.beats.ready.eq(1),
            steps.i.payload.rate.eq(word),
            steps.i.payload.last_sample.eq(word[COUNT_BIT:]),
            labels.i.payload.eq(word[LABEL_BIT:]),
            self.sample_command.payload.address.eq(byte_address(address)),
            self.sample_command.payload.beats.eq(self.mapping.sample_beats),
        ]

        after = block + ((job.batch + WORDS) >> exact_log2(WORDS))
        # a register: a sample's start must not wait for the arbiter's ready
        fetches = self.sample_command.valid & self.sample_command.ready
        m.d.sync += self.begin.eq(fetches)

        def fail(wrong: Signal, name: str) -> None:
            with m.If(wrong & ~self.fault.failed):
                m.d.sync += [
                    self.fault.failed.eq(1),
                    self.fault.error.eq(self.errors[name]),
                    self.fault.address.eq(word),
                ]

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += job.over.eq(1)
                m.d.sync += [next_beat.eq(order), block.eq(order), steps_left.eq(job.steps), in_step.eq(0), again.eq(0)]
                with m.If(job.start):
                    m.next = "READ"
            with m.State("READ"):
                # commands are valid from a register: long paths begin there
                m.d.sync += [lane.eq(0), read.command.valid.eq(~(read.command.valid & read.command.ready))]
                with m.If(read.command.valid & read.command.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += beat.eq(read.beats.payload)
                with m.If(read.beats.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [address.eq(samples), index.eq(word), stride.eq(self.mapping.sample_beats)]
                m.next = "TAKE"
            with m.State("TAKE"):
                with m.If(in_step == 0):
                    fail(bad_step, "BAD_STEP")
                    m.d.comb += steps.i.valid.eq(~bad_step & ~again)
                    with m.If(again | (steps.i.valid & steps.i.ready)):
                        m.d.sync += in_step.eq(word[COUNT_BIT:LABEL_BIT] + 1)
                        with m.If(~again):
                            m.d.sync += [steps_left.eq(steps_left - 1), repeats.eq(job.repeats)]
                        m.next = "MOVE"
                with m.Else():
                    fail(bad_index, "BAD_INDEX")
                    fail(~bad_index & bad_label, "BAD_LABEL")
                    m.d.sync += [index.eq(index >> 1), stride.eq(stride << 1)]
                    m.d.sync += address.eq(address + (stride & index[0].replicate(len(stride))))
                    with m.If(~index.any() & ~bad_index & ~bad_label):
                        m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += self.sample_command.valid.eq(self.room & labels.i.ready & ~fetches)
                with m.If(fetches):
                    m.d.comb += labels.i.valid.eq(1)
                    m.d.sync += in_step.eq(in_step - 1)
                    m.next = "ARRIVE"
            with m.State("ARRIVE"), m.If(self.done):
                m.next = "MOVE"
            with m.State("MOVE"):
                m.d.sync += [beat.eq(beat >> 32), lane.eq(lane + 1)]
                m.next = "CHECK"
                with m.If(in_step == 0):
                    m.next = "STEP"
                with m.Elif(lane == WORDS - 1):
                    m.d.sync += next_beat.eq(next_beat + 1)
                    m.next = "READ"
            with m.State("STEP"):
                m.d.sync += [repeats.eq(repeats - 1), again.eq(repeats != 1), next_beat.eq(block)]
                m.next = "READ"
                with m.If(repeats == 1):
                    m.d.sync += [block.eq(after), next_beat.eq(after)]
                    with m.If(steps_left == 0):
                        m.next = "IDLE"
        return m
