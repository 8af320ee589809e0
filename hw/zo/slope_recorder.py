"""Slope recorder: from the logits of a step's samples to the coefficients of its slopes and their records."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS
from ...golden.zo.coefficient import COEFFICIENT, LARGEST_BATCH, RATE, SHIFT, CoefficientSpec
from ...golden.zo.loss_difference import LossDifferenceSpec
from ..axi.memory_port import WritePort
from ..nn.interfaces import LOGIT
from ..ports import shape
from ..primitives.fifo import Fifo
from .coefficient import Coefficient
from .label_memory import LabelMemory
from .loss_difference import LossDifference
from .record_writer import RecordWriter
from .step_scheduler import LABEL_BITS

POSITIONS_AHEAD = 2
"""Positions that wait: a slope is computed while the losses of the one before are still to come."""


class SlopeRecorder(wiring.Component):
    """Loss difference of each sample, their sum over a step's samples times its rate, and the record of both.

    Parameters
    ----------
    classes : int
        Logits of a sample.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    i : In stream of `LOGIT`
        Logits, sample by sample, the plus side and then the minus side.
    label : In stream of `LABEL_BITS` bits
        Labels in the order of the samples; one is there when its sample is computed.
    sample : In, 1
        A sample is computed first, see `LabelMemory`; one cycle.
    last_sample : In, 8
        Samples of a step less one.
    rate, shift : In, 16 and 6 bits
        See `Coefficient`; these three stay the same during a step.
    position : In stream of 32 bits
        Position of each slope's perturbation, before its first logit.
    o : Out stream of coefficients
        A slope's coefficient; taken at once, when its record is.
    clipped : Out, 1
        With `o`: the coefficient was clipped.
    start, address, batch, write, empty
        Ports of the records, see `RecordWriter`.
    """

    def __init__(self, classes: int, address: int = ADDRESS_BITS) -> None:
        self._address = address
        self.loss = LossDifference(LossDifferenceSpec(classes=classes))
        super().__init__(
            {
                "i": In(LOGIT),
                "label": In(stream.Signature(LABEL_BITS)),
                "sample": In(1),
                "last_sample": In(range(LARGEST_BATCH)),
                "rate": In(shape(RATE)),
                "shift": In(shape(SHIFT)),
                "position": In(stream.Signature(32)),
                "o": Out(stream.Signature(shape(COEFFICIENT), always_ready=True)),
                "clipped": Out(1),
                "start": In(1),
                "address": In(address),
                "batch": In(LARGEST_BATCH.bit_length()),
                "write": Out(WritePort(address)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.loss = loss = self.loss
        m.submodules.labels = labels = LabelMemory()
        m.submodules.coefficient = coefficient = Coefficient(CoefficientSpec())
        m.submodules.records = records = RecordWriter(self._address)
        m.submodules.positions = positions = Fifo(32, POSITIONS_AHEAD)
        wiring.connect(m, wiring.flipped(self.i), loss.i)
        wiring.connect(m, wiring.flipped(self.label), labels.i)
        wiring.connect(m, wiring.flipped(self.position), positions.i)
        wiring.connect(m, records.write, wiring.flipped(self.write))
        m.d.comb += [
            labels.sample.eq(self.sample),
            labels.last_sample.eq(self.last_sample),
            loss.label.valid.eq(labels.o.valid),
            loss.label.payload.label.eq(labels.o.payload),
            labels.o.ready.eq(loss.label.ready),
            records.start.eq(self.start),
            records.address.eq(self.address),
            records.batch.eq(self.batch),
            self.empty.eq(records.empty),
        ]
        # a loss difference goes to the coefficient and into the record
        done, last = Signal(self.last_sample.shape()), Signal()
        moved = loss.o.valid & coefficient.i.ready & records.pair.ready
        m.d.sync += last.eq(done == self.last_sample)
        with m.If(moved):
            m.d.sync += done.eq(Mux(last, 0, done + 1))
        found, given = loss.o.payload, coefficient.o.payload
        # a register: long paths begin with the coefficient's state
        closing = Signal()
        written = closing & records.summary.ready
        m.d.sync += closing.eq(coefficient.o.valid & positions.o.valid & ~written)
        m.d.comb += [
            coefficient.i.valid.eq(loss.o.valid & records.pair.ready),
            records.pair.valid.eq(loss.o.valid & coefficient.i.ready),
            loss.o.ready.eq(coefficient.i.ready & records.pair.ready),
            coefficient.i.payload.difference.eq(found.difference),
            coefficient.i.payload.last.eq(last),
            records.pair.payload.plus.eq(found.plus),
            records.pair.payload.minus.eq(found.minus),
            records.pair.payload.last.eq(last),
            coefficient.rate.valid.eq(1),
            coefficient.rate.payload.rate.eq(self.rate),
            coefficient.rate.payload.shift.eq(self.shift),
            records.summary.valid.eq(closing),
            records.summary.payload.position.eq(positions.o.payload),
            records.summary.payload.coefficient.eq(given.coefficient),
            records.summary.payload.difference.eq(given.difference),
            coefficient.o.ready.eq(written),
            positions.o.ready.eq(written),
            self.o.valid.eq(written),
            self.o.payload.eq(given.coefficient),
            self.clipped.eq(written & given.clipped),
        ]
        return m
