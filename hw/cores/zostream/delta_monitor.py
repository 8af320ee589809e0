"""Delta monitor: packs deltas into the beats of their image."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ....golden.stream.weights.word_offsets import PER_BEAT, WordOffsetsSpec
from ....golden.zo.deltas import DELTA
from ..shelled_core import Monitor


class DeltaMonitor(wiring.Component):
    """Packs the stored deltas of a row into beats; a row's last beat is padded with 0.

    Attributes
    ----------
    valid : In(1)
        A delta is stored; deltas of a row come in order.
    row, column : In
        Address of the delta.
    delta : In(32)
    beat_valid, beat, data : Out
        As in `Monitor`; a cycle later.
    """

    def __init__(self, spec: WordOffsetsSpec) -> None:
        self.spec = spec
        monitor = Monitor(1).members
        super().__init__(
            {
                "valid": In(1),
                "row": In(range(spec.tables * spec.times)),
                "column": In(range(spec.row_words)),
                "delta": In(DELTA.width),
                "beat_valid": monitor["valid"],
                "beat": monitor["beat"],
                "data": monitor["data"],
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        number, words = self.column[:2], self.data.word_select
        ends = (number == PER_BEAT - 1) | (self.column == self.spec.n - 1)
        m.d.sync += self.beat_valid.eq(self.valid & ends)
        with m.If(self.valid):
            m.d.sync += self.beat.eq(self.row * (self.spec.row_words // PER_BEAT) + (self.column >> 2))
            with m.If(number == 0):
                m.d.sync += self.data.eq(self.delta.as_unsigned())
            with m.Else():
                m.d.sync += words(number, DELTA.width).eq(self.delta)
        return m
