"""The incoming batch of an adapter, as counted by its proofs."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.lora.adapter import AdapterSpec
from ..formal.checker import Checker


class ObservedBatch:
    """The batch at the inputs of `adapter`, which computes after the batch's last row and label.

    Attributes
    ----------
    labels, samples, row : Signal
        Numbers of labels and of complete samples of the incoming batch, and of rows of the incoming sample.
    closed, begins : Signal, Value
        `closed` is high once the batch's last label has come; `begins` for one cycle when all `labels` samples are
        complete.
    """

    def __init__(self, checker: Checker, spec: AdapterSpec) -> None:
        m, label, rows = checker.m, checker.moves("label"), checker.moves("i")
        self.row, self.closed = Signal(range(spec.rows), name="row_count"), Signal(name="closed")
        self.labels, self.samples = (
            Signal(range(spec.batch + 1), name=name) for name in ("label_count", "sample_count")
        )
        self.begins = self.closed & (self.samples == self.labels)
        with m.If(label):
            m.d.sync += self.labels.eq(self.labels + 1)
            m.d.sync += self.closed.eq(checker.payload("label").last | (self.labels == spec.batch - 1))
        with m.If(rows):
            m.d.sync += self.row.eq(Mux(self.row == spec.rows - 1, 0, self.row + 1))
        with m.If(rows & (self.row == spec.rows - 1)):
            m.d.sync += self.samples.eq(self.samples + 1)
        with m.If(self.begins):
            m.d.sync += [self.labels.eq(0), self.samples.eq(0), self.closed.eq(0)]
