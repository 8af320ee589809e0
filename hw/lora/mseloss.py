"""RTL of `mseloss`: gradient of the squared error, logit - target, rounded."""

from amaranth.hdl import Cat, EnableInserter, Module, Signal, signed
from amaranth.lib import wiring

from ...golden.fixed import Q4_12, Q8_16
from ...golden.lora.mseloss import MselossSpec
from ..ports import members
from ..primitives.rounding import RoundSaturate


class Mseloss(wiring.Component):
    """Subtracts, rounds and saturates, with a latency of 4 cycles; stalls while a gradient is not taken."""

    def __init__(self, spec: MselossSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, result, latency = self.i.payload, self.o.payload, self.spec.latency
        move, valid, last = Signal(), Signal(latency), Signal(latency)
        difference = Signal(signed(Q8_16.width + 1))
        rounding = RoundSaturate(len(difference), Q8_16.fraction - Q4_12.fraction, Q4_12)
        m.submodules.rounding = EnableInserter(move)(rounding)
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(move & self.target.valid),
            self.target.ready.eq(move & self.i.valid),
            rounding.i.eq(difference),
            self.o.valid.eq(valid[-1]),
            result.gradient.eq(rounding.o),
            result.clipped.eq(rounding.clipped),
            result.last.eq(last[-1]),
        ]
        with m.If(move):
            m.d.sync += [
                difference.eq(word.logit - self.target.payload.target),
                valid.eq(Cat(self.i.valid & self.target.valid, valid)),
                last.eq(Cat(word.last, last)),
            ]
        return m
