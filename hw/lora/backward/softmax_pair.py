"""Two softmaxes that take samples in turn: one reads a sample's logits while the other gives its probabilities."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from ....golden.nn.softmax import SoftmaxSpec
from ...nn.softmax import Softmax
from ...ports import members


class SoftmaxPair(wiring.Component):
    """Two `Softmax` on alternate samples: the streams of one, at twice the throughput.

    Attributes
    ----------
    i : In stream
        ``logit`` in Q8.16; ``last`` on the last logit of a sample.
    o : Out stream
        ``probability`` in Q4.12, and ``last``.
    """

    def __init__(self, spec: SoftmaxSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first, m.submodules.second = parts = Softmax(self.spec), Softmax(self.spec)
        # softmax of the next logit, and of the next probability
        takes, gives = Signal(), Signal()
        for number, part in enumerate(parts):
            m.d.comb += [
                part.i.payload.eq(self.i.payload),
                part.i.valid.eq(self.i.valid & (takes == number)),
                part.o.ready.eq(self.o.ready & (gives == number)),
            ]
        first, second = parts
        m.d.comb += [
            self.i.ready.eq(Mux(takes, second.i.ready, first.i.ready)),
            self.o.valid.eq(Mux(gives, second.o.valid, first.o.valid)),
            self.o.payload.eq(Mux(gives, second.o.payload, first.o.payload)),
        ]
        m.d.sync += [
            takes.eq(takes ^ (self.i.valid & self.i.ready & self.i.payload.last)),
            gives.eq(gives ^ (self.o.valid & self.o.ready & self.o.payload.last)),
        ]
        return m
