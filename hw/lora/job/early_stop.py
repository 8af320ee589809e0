"""Early stop: whether a job ends with the loss that was complete last."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..backward.epoch_loss import SUM_BITS


class EarlyStop(wiring.Component):
    """Compare losses with a limit and, where a job has patience, with the smallest one before.

    Parameters
    ----------
    patient : bool
        A job may end when losses have stopped falling.

    Attributes
    ----------
    start : In(1), with `patient`
        A job begins.
    loss : In(32)
        Loss of the last epoch or of its validation.
    complete : In(1), with `patient`
        `loss` is a new one, for one cycle.
    limit : In(32)
        Loss that ends the job; stable during a job.
    patience : In(32), with `patient`
        Losses in a row, none of them smaller than all before, that end the job; 0: any number. Stable during a job.
    low : Out(1)
        The job ends; valid `LATENCY` cycles behind a new loss.
    """

    LATENCY = 2

    def __init__(self, patient: bool = False) -> None:
        self.patient = patient
        more = {"start": In(1), "complete": In(1), "patience": In(32)}
        super().__init__(
            {"loss": In(SUM_BITS), "limit": In(SUM_BITS), "low": Out(1), **(more if patient else {})},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        within = self.loss <= self.limit
        if not self.patient:
            m.d.sync += self.low.eq(within)
            return m
        # one bit more: the first loss is below
        best, waited = Signal(SUM_BITS + 1), Signal(32)
        with m.If(self.complete):
            m.d.sync += waited.eq(waited + 1)
            with m.If(self.loss < best):
                m.d.sync += [best.eq(self.loss), waited.eq(0)]
        with m.If(self.start):
            m.d.sync += [best.eq(-1), waited.eq(0)]
        m.d.sync += self.low.eq(within | (self.patience.any() & (waited >= self.patience)))
        return m
