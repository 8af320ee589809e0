"""Step scheduler: reads the order list and fetches the samples of one step after the other, ahead of the passes."""

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
"""Labels that wait: as many samples as are fetched and not yet done."""


class StepScheduler(OrderList):
    """Give each step, then fetch its samples and give their labels, once or several times, one step behind the other.

    An entry takes five cycles, one for each bit of its index, and the transfer of its sample.

    Parameters
    ----------
    sample_beats : int
        Beats of a sample's image.
    labels : int
        Labels that a sample can have.
    errors, address
        See `OrderList`.

    Attributes
    ----------
    job, order_read, step, fault
        See `OrderList`.
    sample_command : Out stream of `command`
        Read commands of samples; their beats go elsewhere.
    room : In, 1
        There is room for a sample.
    begin : Out, 1
        A sample's read command was accepted in the cycle before; one cycle.
    done : In, 1
        All beats of the sample have come; one cycle.
    label : Out stream of `LABEL_BITS` bits
        Labels of the samples.
    """

    def __init__(self, sample_beats: int, labels: int, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        self.sample_beats, self.labels = sample_beats, labels
        sample = {"sample_command": Out(command(address)), "room": In(1), "begin": Out(1), "done": In(1)}
        super().__init__(OrderJob(address), errors, address, sample, {"label": Out(stream.Signature(LABEL_BITS))})
        self._labels, samples = Fifo(LABEL_BITS, LABELS_AHEAD), beat_number(self.job.samples)
        # beat of the sample, distance of samples times a power of two, and the bits of its index that are to be added
        self._sample = Signal.like(samples, name="sample", reset_less=True)
        self._stride = Signal.like(samples, name="stride", reset_less=True)
        self._index = Signal(LABEL_BIT, name="index", reset_less=True)

    def label_limit(self) -> int:
        """Labels of the network."""
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
        # a register: a sample's start must not wait for the arbiter's ready
        m.d.sync += self.begin.eq(self._fetches)

    @property
    def _fetches(self) -> Value:
        """Whether a sample's read command is accepted."""
        return self.sample_command.valid & self.sample_command.ready

    def look(self, m: Module, order: OrderPlace) -> None:
        """Prepare for the search of a sample's address."""
        m.d.sync += [self._sample.eq(beat_number(self.job.samples)), self._index.eq(order.word)]
        m.d.sync += self._stride.eq(self.sample_beats)

    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Take a sample's word: find its address, one bit of its index a cycle: there is time, and no DSP."""
        index, stride = self._index, self._stride
        self.fail(m, order, order.bad_index, "BAD_INDEX")
        self.fail(m, order, ~order.bad_index & order.bad_label, "BAD_LABEL")
        m.d.sync += [index.eq(index >> 1), stride.eq(stride << 1)]
        m.d.sync += self._sample.eq(self._sample + (stride & index[0].replicate(len(stride))))
        with m.If(~index.any() & ~order.bad_index & ~order.bad_label):
            m.next = "FETCH"

    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """Ask for a sample and give its label; wait until it is there."""
        labels, fetches = self._labels, self._fetches
        with m.State("FETCH"):
            m.d.sync += self.sample_command.valid.eq(self.room & labels.i.ready & ~fetches)
            with m.If(fetches):
                m.d.comb += labels.i.valid.eq(1)
                m.d.sync += order.samples_left.eq(order.samples_left - 1)
                m.next = "ARRIVE"
        with m.State("ARRIVE"), m.If(self.done):
            m.next = "MOVE"
