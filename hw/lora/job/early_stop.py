"""Early stop: decision whether a job ends with the last complete loss."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..backward.epoch_loss import SUM_BITS


class Patience(wiring.Signature):
    """Limit of losses in a row without a new minimum.

    Members
    -------
    start : Out(1)
        A job begins.
    complete : Out(1)
        `loss` is new; one cycle.
    losses : Out(32)
        Losses in a row without a new minimum that end the job; 0 for no limit. Stable during a job.
    """

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "complete": Out(1), "losses": Out(32)})


class StopDecision(wiring.Component):
    """Compares losses with a limit and, with patience, with the minimum so far.

    Parameters
    ----------
    patient : bool
        Adds the port `patience`.

    Attributes
    ----------
    loss : In(32)
        Loss of the last epoch or of its validation.
    limit : In(32)
        Largest loss that ends the job; stable during a job.
    patience : In, `Patience`, with `patient`
    low : Out(1)
        The job ends; valid `LATENCY` cycles after a new loss.
    """

    LATENCY = 2

    def __init__(self, patient: bool = False) -> None:
        self.patient = patient
        ports = {"loss": In(SUM_BITS), "limit": In(SUM_BITS), "low": Out(1)}
        super().__init__(ports | ({"patience": In(Patience())} if patient else {}))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        within = self.loss <= self.limit
        if not self.patient:
            m.d.sync += self.low.eq(within)
            return m
        # a bit more than losses have: the first loss is smaller
        best, waited = Signal(SUM_BITS + 1), Signal(32)
        with m.If(self.patience.complete):
            m.d.sync += waited.eq(waited + 1)
            with m.If(self.loss < best):
                m.d.sync += [best.eq(self.loss), waited.eq(0)]
        with m.If(self.patience.start):
            m.d.sync += [best.eq(-1), waited.eq(0)]
        m.d.sync += self.low.eq(within | (self.patience.losses.any() & (waited >= self.patience.losses)))
        return m
