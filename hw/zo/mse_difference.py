"""RTL of `mse_difference`: a squarer; sum and difference of the plus and minus squares."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring

from ...golden.fixed import Q8_16, Format
from ...golden.zo.loss_difference import DIFFERENCE
from ...golden.zo.mse_difference import ERROR, MseDifferenceSpec, size_bits
from ..ports import members
from ..primitives.pipeline import Pipeline
from ..primitives.rounding import RoundSaturate

_LOW = 17
"""Bits of an error's lower part; a square is two products of one DSP each."""
_ERROR = Format(ERROR.integer + 1, ERROR.fraction)
"""Format of a mean squared error, plus a sign bit, always 0."""


class MseDifference(wiring.Component):
    """Compute a sample's loss difference; accepts a logit with its target a cycle, first plus, then minus.

    The result follows the last of a pair's logits by ``spec.latency`` cycles. The next pair's first logit is accepted
    in the cycle after the result was accepted.
    """

    def __init__(self, spec: MseDifferenceSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sample, target, result = self.i.payload, self.target.payload.target, self.o.payload
        taken, busy, side, begins = Signal(), Signal(), Signal(), Signal(init=1)
        ends = taken & sample.last & side
        m.d.comb += [
            self.i.ready.eq(self.target.valid & ~busy),
            self.target.ready.eq(self.i.valid & ~busy),
            taken.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += busy.eq((busy | ends) & ~(self.o.valid & self.o.ready))
        with m.If(taken):
            m.d.sync += [side.eq(side ^ sample.last), begins.eq(ends)]

        error = Signal(signed(Q8_16.width + 1))
        low, high = Signal(signed(len(error) + _LOW)), Signal(signed(2 * len(error) - _LOW))
        square = Signal(2 * Q8_16.width)
        # `o.valid` rises a cycle after the last stage
        stages = {"logit": 0, "error": 1, "products": 1, "square": 1, "offered": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        width = 2 * Q8_16.width + size_bits(self.spec.outputs) + 2
        difference, total = Signal(signed(width)), Signal(signed(width))
        of = {
            name: pipeline.place("logit", value, name).at("square")
            for name, value in (("step", taken), ("first", begins), ("minus", side))
        }
        m.d.sync += [
            error.eq(sample.logit - target),
            low.eq(error * error[:_LOW]),
            high.eq(error * error[_LOW:].as_signed()),
            square.eq(low + (high << _LOW)),
        ]
        with m.If(of["step"]):
            m.d.sync += [
                difference.eq(Mux(of["first"], 0, difference) + Mux(of["minus"], -square, square)),
                total.eq(Mux(of["first"], 0, total) + square),
            ]

        # no input is accepted until the result is, so the sums and the rounded results stay stable
        fraction = 2 * Q8_16.fraction + 1 + size_bits(self.spec.outputs)
        for name, value, target_format in (("difference", difference, DIFFERENCE), ("error", total, _ERROR)):
            rounding = RoundSaturate(width, fraction - target_format.fraction, target_format)
            m.submodules[f"{name}_rounding"] = rounding
            m.d.comb += [rounding.i.eq(value), result[name].eq(rounding.o)]
        rounded = pipeline.place("logit", ends, "over").at("offered")
        with m.If(rounded):
            m.d.sync += self.o.valid.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
