"""Epoch loss: the cross entropy of each sample from its gradients, by two tables, and its sum over an epoch."""

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q4_12
from ...golden.lora.epoch_loss import INDEX_BITS, LARGEST_SUM, LOGARITHMS, LOSS, OCTAVES
from ..nn.interfaces import PARAMETER
from ..primitives.pipeline import delayed

SUM_BITS = LARGEST_SUM.bit_length()
NORMALISE, READ, SUBTRACT = 1, 1, 1
"""Registers of a probability's octave and index, of the tables' entries, of the loss."""


class GradientWatch(wiring.Signature):
    """Gradients with respect to logits as they are taken, a sample after the other; no handshake.

    Members
    -------
    valid : Out(1)
        A gradient is taken in this cycle.
    gradient : Out, Q4.12
        Below 0 at the label, if it is not 0 there, and nowhere else.
    last : Out(1)
        It is its sample's last one.
    """

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "gradient": Out(PARAMETER), "last": Out(1)})


class EpochLoss(wiring.Component):
    """Take a gradient a cycle; `step` comes `LATENCY` cycles behind an epoch's last one.

    Parameters
    ----------
    largest : int
        Largest sum, 2**n - 1: a larger one stays there.

    Attributes
    ----------
    start : In(1)
        A job begins.
    samples : In(32)
        Samples of an epoch, 1 or more; stable during a job.
    gradients : In, `GradientWatch`
        Those of a tuning.
    limit : In(32)
        Loss up to which `low` is high; stable during a job.
    step : Out(32)
        For a cycle at the end of an epoch, its loss less that of the epoch before, modulo 2**32; else 0.
    low : Out(1)
        The loss of the last epoch that ended is at most `limit`; valid two cycles behind `step`.
    """

    LATENCY = NORMALISE + READ + SUBTRACT + 2

    def __init__(self, largest: int = LARGEST_SUM) -> None:
        self.largest = largest
        super().__init__(
            {
                "start": In(1),
                "samples": In(32),
                "gradients": In(GradientWatch()),
                "limit": In(SUM_BITS),
                "step": Out(SUM_BITS),
                "low": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        loss, valid = self._loss(m)
        left, total, last = Signal(32), Signal(SUM_BITS), Signal(SUM_BITS)
        summed, end = Signal(SUM_BITS + 1), Signal()
        ended = delayed(m, end, 1, "ended")
        m.d.comb += [summed.eq(total + loss), end.eq(valid & (left == 1)), self.step.eq(Mux(ended, total - last, 0))]
        with m.If(valid):
            m.d.sync += [
                total.eq(Mux(summed > self.largest, self.largest, summed)),
                left.eq(Mux(end, self.samples, left - 1)),
            ]
        with m.If(ended):
            m.d.sync += [last.eq(total), total.eq(Mux(valid, loss, 0))]
        m.d.sync += self.low.eq(last <= self.limit)
        with m.If(self.start):
            m.d.sync += [left.eq(self.samples), total.eq(0), last.eq(0)]
        return m

    def _loss(self, m: Module) -> tuple[Signal, Signal]:
        """Loss of a sample, and whether there is one."""
        watch = self.gradients
        m.submodules.logarithms = table = memory.Memory(
            shape=unsigned(max(LOGARITHMS).bit_length()), depth=len(LOGARITHMS), init=LOGARITHMS
        )
        port = table.read_port()
        own, seen, sample = Signal(PARAMETER), Signal(signed(Q4_12.width)), Signal()
        m.d.comb += own.eq(Mux(watch.gradient < 0, watch.gradient, seen))
        probability = Signal(Q4_12.fraction + 1)
        with m.If(watch.valid):
            m.d.sync += seen.eq(Mux(watch.last, 0, own))
        m.d.sync += [sample.eq(watch.valid & watch.last), probability.eq(own + (1 << Q4_12.fraction))]
        octave, index = Signal(range(len(OCTAVES))), Signal(INDEX_BITS)
        # the highest one decides; of a probability of 0 what is set here first
        m.d.comb += [octave.eq(Q4_12.fraction), index.eq(0)]
        for bit in range(1, Q4_12.fraction + 1):
            with m.If(probability[bit]):
                below = probability[max(bit - INDEX_BITS, 0) : bit]
                m.d.comb += [octave.eq(Q4_12.fraction - bit), index.eq(below << INDEX_BITS - len(below))]
        whole = Signal(range(max(OCTAVES) + 1))
        loss = Signal(LOSS.width)
        found = Signal.like(octave)
        m.d.sync += [found.eq(octave), whole.eq(Array(OCTAVES)[found]), loss.eq(whole - port.data)]
        address = Signal.like(index)
        m.d.sync += address.eq(index)
        m.d.comb += port.addr.eq(address)
        return loss, delayed(m, sample, NORMALISE + READ + SUBTRACT, "counted")
