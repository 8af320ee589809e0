"""Projected gradients of a step and their records."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.nn.arithmetic.loss import Loss
from ....golden.zo.coefficient import COEFFICIENT, LARGEST_BATCH, RATE, SHIFT, CoefficientSpec
from ....golden.zo.loss_difference import LossDifferenceSpec
from ....golden.zo.mse_difference import MseDifferenceSpec
from ...axi.memory_port import WritePort
from ...nn.interfaces import ACTIVATION, LOGIT
from ...ports import shape
from ...primitives.fifo import Fifo
from ..coefficient import Coefficient
from ..loss_difference import LossDifference
from ..mse_difference import MseDifference
from .label_memory import LabelMemory, SampleLabels
from .record_writer import RecordWriter

POSITIONS_AHEAD = 2
"""Queue depth of positions: passes run ahead while losses of earlier passes are outstanding."""


class SlopeRecorder(wiring.Component):
    """Compute each sample's loss difference and, from their sum, the step's coefficient; write a record of all.

    Parameters
    ----------
    classes : int
        Logits of a sample.
    loss : str
        See `golden.nn.arithmetic.loss`.

    Attributes
    ----------
    i : In stream of `LOGIT`
        Logits, sample by sample, plus then minus.
    labels : In, `SampleLabels`, only with the cross entropy
    target : In stream of Q8.16, only with the mean squared error
        Target of each logit.
    last_sample : In, 8
        Number of samples in a step, minus 1.
    rate, shift : In, 16 and 6 bits
        See `Coefficient`. `last_sample`, `rate` and `shift` are stable during a step.
    position : In stream of 32 bits
        Generator position of each perturbation, before its first logit.
    o : Out stream of coefficients
        Coefficient of a projected gradient, in the cycle in which its record is accepted; no `ready`.
    clipped : Out, 1
        With `o`: the coefficient was clipped.
    start, address, batch, write, empty
        Ports of the records, see `RecordWriter`.
    """

    def __init__(self, classes: int, address: int = ADDRESS_BITS, loss: Loss = "cross_entropy") -> None:
        self._address, self._classes, self._loss = address, classes, loss
        truth = {"labels": In(SampleLabels())}
        if loss == "mse":
            truth = {"target": In(stream.Signature(ACTIVATION))}
        super().__init__(
            {
                "i": In(LOGIT),
                **truth,
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
        loss, word = self._labelled(m) if self._loss == "cross_entropy" else self._targeted(m)
        m.submodules.coefficient = coefficient = Coefficient(CoefficientSpec())
        m.submodules.records = records = RecordWriter(self._address)
        m.submodules.positions = positions = Fifo(32, POSITIONS_AHEAD)
        wiring.connect(m, wiring.flipped(self.i), loss.i)
        wiring.connect(m, wiring.flipped(self.position), positions.i)
        wiring.connect(m, records.write, wiring.flipped(self.write))
        m.d.comb += [
            records.start.eq(self.start),
            records.address.eq(self.address),
            records.batch.eq(self.batch),
            self.empty.eq(records.empty),
        ]
        done, last = Signal(self.last_sample.shape()), Signal()
        moved = loss.o.valid & coefficient.i.ready & records.sample.ready
        m.d.sync += last.eq(done == self.last_sample)
        with m.If(moved):
            m.d.sync += done.eq(Mux(last, 0, done + 1))
        slope = coefficient.o.payload
        # timing: the coefficient's state drives long paths, so `closing` is registered
        closing = Signal()
        written = closing & records.summary.ready
        m.d.sync += closing.eq(coefficient.o.valid & positions.o.valid & ~written)
        m.d.comb += [
            coefficient.i.valid.eq(loss.o.valid & records.sample.ready),
            records.sample.valid.eq(loss.o.valid & coefficient.i.ready),
            loss.o.ready.eq(coefficient.i.ready & records.sample.ready),
            coefficient.i.payload.difference.eq(loss.o.payload.difference),
            coefficient.i.payload.last.eq(last),
            records.sample.payload.word.eq(word),
            records.sample.payload.last.eq(last),
            coefficient.rate.valid.eq(1),
            coefficient.rate.payload.rate.eq(self.rate),
            coefficient.rate.payload.shift.eq(self.shift),
            records.summary.valid.eq(closing),
            records.summary.payload.position.eq(positions.o.payload),
            records.summary.payload.coefficient.eq(slope.coefficient),
            records.summary.payload.difference.eq(slope.difference),
            coefficient.o.ready.eq(written),
            positions.o.ready.eq(written),
            self.o.valid.eq(written),
            self.o.payload.eq(slope.coefficient),
            self.clipped.eq(written & slope.clipped),
        ]
        return m

    def _labelled(self, m: Module) -> tuple[LossDifference, Value]:
        """Cross entropy with labels: the loss component, and a sample's record word."""
        m.submodules.loss = loss = LossDifference(LossDifferenceSpec(classes=self._classes))
        m.submodules.labels = labels = LabelMemory()
        wiring.connect(m, wiring.flipped(self.labels.label), labels.i)
        m.d.comb += [
            labels.sample.eq(self.labels.sample),
            labels.last_sample.eq(self.last_sample),
            loss.label.valid.eq(labels.o.valid),
            loss.label.payload.label.eq(labels.o.payload),
            labels.o.ready.eq(loss.label.ready),
        ]
        return loss, Cat(loss.o.payload.plus, loss.o.payload.minus)

    def _targeted(self, m: Module) -> tuple[MseDifference, Value]:
        """Mean squared error with targets: the loss component, and a sample's record word."""
        m.submodules.loss = loss = MseDifference(MseDifferenceSpec(outputs=self._classes))
        m.d.comb += [
            loss.target.valid.eq(self.target.valid),
            loss.target.payload.target.eq(self.target.payload),
            self.target.ready.eq(loss.target.ready),
        ]
        return loss, loss.o.payload.error
