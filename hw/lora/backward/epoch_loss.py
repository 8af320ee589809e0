"""Epoch loss: cross entropy of each sample from its gradients, by two tables, summed over an epoch."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, ValueLike, signed, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q4_12
from ....golden.lora.early_stop import INDEX_BITS, LARGEST_SUM, LOGARITHMS, LOSS, OCTAVES
from ...nn.interfaces import PARAMETER
from ...primitives.pipeline import Pipeline, delayed

SUM_BITS = LARGEST_SUM.bit_length()
NORMALISE, READ, SUBTRACT = 1, 1, 1
"""Registers of a probability's octave and index, of the tables' entries, of the loss."""


class GradientWatch(wiring.Signature):
    """Gradients with respect to logits, sample by sample; no handshake.

    Members
    -------
    valid : Out(1)
        `gradient` is valid in this cycle.
    gradient : Out, Q4.12
        At most 0 at the label, at least 0 elsewhere.
    last : Out(1)
        Last gradient of a sample.
    """

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "gradient": Out(PARAMETER), "last": Out(1)})


class ValidationLoss(wiring.Signature):
    """Loss and correct samples of the validation after each epoch, as `EpochLoss` has the ports.

    Members
    -------
    samples : In(32)
        Samples of a validation; 0 for none. Stable during a job.
    step, correct_step : Out(32)
        In one cycle at the end of a validation, the increase since the previous validation of the loss and of the
        number of correct samples, modulo 2**32; else 0.
    """

    def __init__(self) -> None:
        super().__init__({"samples": In(32), "step": Out(SUM_BITS), "correct_step": Out(SUM_BITS)})


class EpochLoss(wiring.Component):
    """Takes a gradient a cycle; `step` follows the last gradient of an epoch by `LATENCY` cycles.

    Parameters
    ----------
    largest : int
        Largest sum, 2**n - 1, where sums saturate.
    validates : bool
        Adds `validation`: the loss and the correct samples of validations.

    Attributes
    ----------
    start : In(1)
        A job begins.
    samples : In(32)
        Samples of an epoch, 1 or more; stable during a job.
    gradients : In, `GradientWatch`
        Gradients of a tuning.
    step : Out(32)
        In one cycle at the end of an epoch, the increase of the loss since the previous epoch, modulo 2**32; else 0.
    loss : Out(32)
        Last complete loss: of a validation if `validation.samples` is not 0, else of an epoch.
    complete : Out(1)
        `loss` is new; one cycle, the cycle after its step.
    validation : Out, `ValidationLoss`, with `validates`
    """

    LATENCY = NORMALISE + READ + SUBTRACT + 2

    def __init__(self, largest: int = LARGEST_SUM, validates: bool = False) -> None:
        self.largest, self.validates = largest, validates
        super().__init__(
            {
                "start": In(1),
                "samples": In(32),
                "gradients": In(GradientWatch()),
                "step": Out(SUM_BITS),
                "loss": Out(SUM_BITS),
                "complete": Out(1),
            }
            | ({"validation": Out(ValidationLoss())} if validates else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipeline = Pipeline(m, {"probability": 0, "index": NORMALISE, "logarithm": READ, "loss": SUBTRACT})
        loss, valid, correct = self._loss(m, pipeline)
        samples_left, end, following = Signal(32), Signal(), Value.cast(self.samples)
        m.d.comb += end.eq(valid & (samples_left == 1))
        m.d.sync += self.complete.eq(0)
        if self.validates:
            validating, wanted = Signal(), Signal()
            m.d.sync += wanted.eq(self.validation.samples.any())
            following = Mux(wanted & ~validating, self.validation.samples, self.samples)
            with m.If(end):
                m.d.sync += validating.eq(wanted & ~validating)
            with m.If(self.start):
                m.d.sync += validating.eq(0)
            of_validation, its_end = valid & validating, end & validating
            self._sum(m, "epoch", self.step, valid & ~validating, loss, end & ~validating, decides=~wanted)
            self._sum(m, "validation", self.validation.step, of_validation, loss, its_end, decides=wanted)
            self._sum(m, "correct", self.validation.correct_step, of_validation, correct, its_end)
        else:
            self._sum(m, "epoch", self.step, valid, loss, end, decides=1)
        with m.If(valid):
            m.d.sync += samples_left.eq(Mux(end, following, samples_left - 1))
        with m.If(self.start):
            m.d.sync += samples_left.eq(self.samples)
        return m

    def _sum(
        self, m: Module, name: str, step: Signal, valid: Value, amount: Value, end: Value, decides: ValueLike = 0
    ) -> None:
        """Sum valid amounts to an end; give the difference from the previous sum, and a deciding sum to `loss`."""
        total, last = Signal(SUM_BITS, name=f"{name}_total"), Signal(SUM_BITS, name=f"{name}_last")
        summed, ended = Signal(SUM_BITS + 1, name=f"{name}_summed"), delayed(m, end, 1, f"{name}_ended")
        m.d.comb += [summed.eq(total + amount), step.eq(Mux(ended, total - last, 0))]
        with m.If(valid):
            m.d.sync += total.eq(Mux(summed > self.largest, self.largest, summed))
        with m.If(ended):
            m.d.sync += [last.eq(total), total.eq(Mux(valid, amount, 0))]
        with m.If(ended & decides):
            m.d.sync += [self.loss.eq(total), self.complete.eq(1)]
        with m.If(self.start):
            m.d.sync += [total.eq(0), last.eq(0)]

    def _loss(self, m: Module, pipeline: Pipeline) -> tuple[Value, Value, Value]:
        """Loss of a sample, whether it is valid, and whether the sample is correct."""
        watch = self.gradients
        m.submodules.logarithms = table = memory.Memory(
            shape=unsigned(max(LOGARITHMS).bit_length()), depth=len(LOGARITHMS), init=LOGARITHMS
        )
        port = table.read_port()
        label_gradient, label_gradient_before, sample = Signal(PARAMETER), Signal(signed(Q4_12.width)), Signal()
        m.d.comb += label_gradient.eq(Mux(watch.gradient < 0, watch.gradient, label_gradient_before))
        probability = Signal(Q4_12.fraction + 1)
        with m.If(watch.valid):
            m.d.sync += label_gradient_before.eq(Mux(watch.last, 0, label_gradient))
        m.d.sync += [sample.eq(watch.valid & watch.last), probability.eq(label_gradient + (1 << Q4_12.fraction))]
        octave, index = Signal(range(len(OCTAVES))), Signal(INDEX_BITS)
        # the highest bit decides; a probability of 0 keeps the value set here
        m.d.comb += [octave.eq(Q4_12.fraction), index.eq(0)]
        for bit in range(1, Q4_12.fraction + 1):
            with m.If(probability[bit]):
                below = probability[max(bit - INDEX_BITS, 0) : bit]
                m.d.comb += [octave.eq(Q4_12.fraction - bit), index.eq(below << INDEX_BITS - len(below))]
        whole = Signal(range(max(OCTAVES) + 1))
        loss = Signal(LOSS.width)
        fetched_octave = Signal.like(octave)
        m.d.sync += [fetched_octave.eq(octave), whole.eq(Array(OCTAVES)[fetched_octave]), loss.eq(whole - port.data)]
        address = Signal.like(index)
        m.d.sync += address.eq(index)
        m.d.comb += port.addr.eq(address)
        counted = pipeline.place("probability", sample, "counted").at("loss")
        return loss, counted, self._correct(m, pipeline, probability)

    def _correct(self, m: Module, pipeline: Pipeline, probability: Value) -> Value:
        """Whether the label has the largest probability of the sample, in the cycle of the loss."""
        if not self.validates:
            return Const(0)
        watch, before = self.gradients, Signal.like(probability)
        largest_so_far, largest = Signal.like(probability), Signal.like(probability)
        m.d.comb += largest_so_far.eq(Mux(watch.gradient > before, watch.gradient, before))
        with m.If(watch.valid):
            m.d.sync += before.eq(Mux(watch.last, 0, largest_so_far))
        m.d.sync += largest.eq(largest_so_far)
        return pipeline.place("probability", probability > largest, "is_correct").at("loss")
