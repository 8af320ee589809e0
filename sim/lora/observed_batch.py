"""Batch of an adapter, as the rules of its proofs count it."""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.lora.adapter import AdapterSpec
from ..formal.checker import Checker


class ObservedBatch:
    """The batch that comes in at the ports of `adapter`, and begins to be computed behind its last row and label.

    Parameters
    ----------
    checker : Checker
        Of `adapter`.
    spec : AdapterSpec

    Attributes
    ----------
    labels, samples : Signal
        Labels, and samples with all of their rows, of the batch that comes in.
    row : Signal
        Rows of the sample that comes in.
    closed : Signal
        The batch's last label is there.
    begins : Value
        High for one cycle as the batch is complete: it has so many labels.
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
