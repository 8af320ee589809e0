"""RTL of `celoss`: gradient of the cross entropy, probability less 1 at the label."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...golden.fixed import Q4_12
from ...golden.nn.celoss import LABEL, CelossSpec
from ..ports import members
from ..probe import probe


class Celoss(wiring.Component):
    """Count a sample's words, compare the count with the label, and decrement the integer bits. Latency 1."""

    def __init__(self, spec: CelossSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, result = self.i.payload, self.o.payload
        number = Signal(LABEL.width)
        full, move = Signal(), Signal()
        m.d.comb += [
            move.eq(~full | self.o.ready),
            self.i.ready.eq(move & self.label.valid),
            self.label.ready.eq(move & self.i.valid & word.last),
            self.o.valid.eq(full),
        ]
        taken = self.i.valid & self.label.valid
        fraction, whole = word.probability[: Q4_12.fraction], word.probability[Q4_12.fraction :]
        gradient, last = Signal(Q4_12.width, reset_less=True), Signal(reset_less=True)
        with m.If(move):
            m.d.sync += [
                full.eq(taken),
                last.eq(word.last),
                gradient.eq(Cat(fraction, (whole - (number == self.label.payload.label))[: len(whole)])),
            ]
            with m.If(taken):
                m.d.sync += number.eq(number + 1)
                with m.If(word.last):
                    m.d.sync += number.eq(0)
        m.d.comb += [result.gradient.eq(gradient), result.last.eq(last)]
        probe(self, full=full, last=last)
        return m
