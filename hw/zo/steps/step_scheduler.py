"""Prefetch of samples, by the sample schedule."""

from enum import IntEnum

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.zo.memory_layout import LABEL_BIT
from ...axi.bursts import command
from ...axi.memory_port import beat_number, byte_address
from ...primitives.fifo import Fifo
from .order_list import LABEL_BITS, OrderJob, OrderList, OrderPlace

LABELS_AHEAD = 4
"""Maximum number of labels in the queue: samples fetched and not yet done."""


class StepScheduler(OrderList):
    """Deliver each step, then fetch its samples and deliver their labels, once or repeatedly.

    A sample takes five cycles, a cycle per bit of its index, and the transfer of its beats.

    Parameters
    ----------
    sample_beats : int
        Beats of a sample's image.
    labels : int
        Number of valid labels.
    errors, address
        See `OrderList`.

    Attributes
    ----------
    job, order_read, step, fault
        See `OrderList`.
    sample_command : Out stream of `command`
        Read commands of samples; the beats bypass the scheduler.
    room : In, 1
        The sample memory has space for a sample.
    begin : Out, 1
        A sample's read command was accepted in the previous cycle; one cycle.
    done : In, 1
        All beats of the sample have arrived; one cycle.
    label : Out stream of `LABEL_BITS` bits
        Labels of the samples.
    """

    def __init__(self, sample_beats: int, labels: int, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        self.sample_beats, self.labels = sample_beats, labels
        sample = {"sample_command": Out(command(address)), "room": In(1), "begin": Out(1), "done": In(1)}
        super().__init__(OrderJob(address), errors, address, sample, {"label": Out(stream.Signature(LABEL_BITS))})
        self._labels, samples = Fifo(LABEL_BITS, LABELS_AHEAD), beat_number(self.job.samples)
        # serial multiplication of index and sample size: beat of the sample, shifted size, remaining index bits
        self._sample = Signal.like(samples, name="sample", reset_less=True)
        self._stride = Signal.like(samples, name="stride", reset_less=True)
        self._index = Signal(LABEL_BIT, name="index", reset_less=True)

    def label_limit(self) -> int:
        """Number of valid labels."""
        return self.labels

    def begin_samples(self, m: Module, order: OrderPlace) -> None:
        """Connect labels and read commands."""
        m.submodules.labels = labels = self._labels
        wiring.connect(m, labels.o, wiring.flipped(self.label))
        m.d.comb += [
            labels.i.payload.eq(order.word[LABEL_BIT:]),
            self.sample_command.payload.address.eq(byte_address(self._sample)),
            self.sample_command.payload.beats.eq(self.sample_beats),
        ]
        # timing: the arbiter's `ready` settles late in the cycle, so `begin` is registered
        m.d.sync += self.begin.eq(self._fetches)

    @property
    def _fetches(self) -> Value:
        return self.sample_command.valid & self.sample_command.ready

    def look(self, m: Module, order: OrderPlace) -> None:
        """Prepare the computation of a sample's address."""
        m.d.sync += [self._sample.eq(beat_number(self.job.samples)), self._index.eq(order.word)]
        m.d.sync += self._stride.eq(self.sample_beats)

    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Compute a sample's address, a bit of the index per cycle, without a DSP."""
        index, stride = self._index, self._stride
        self.fail(m, order, order.bad_index, "BAD_INDEX")
        self.fail(m, order, ~order.bad_index & order.bad_label, "BAD_LABEL")
        m.d.sync += [index.eq(index >> 1), stride.eq(stride << 1)]
        m.d.sync += self._sample.eq(self._sample + (stride & index[0].replicate(len(stride))))
        with m.If(~index.any() & ~order.bad_index & ~order.bad_label):
            m.next = "FETCH"

    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """Request a sample, deliver its label, and wait for its beats."""
        labels, fetches = self._labels, self._fetches
        with m.State("FETCH"):
            m.d.sync += self.sample_command.valid.eq(self.room & labels.i.ready & ~fetches)
            with m.If(fetches):
                m.d.comb += labels.i.valid.eq(1)
                m.d.sync += order.samples_left.eq(order.samples_left - 1)
                m.next = "ARRIVE"
        with m.State("ARRIVE"), m.If(self.done):
            m.next = "MOVE"
