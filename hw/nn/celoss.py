"""RTL of `celoss`: a counter, compared with the label, and a decrement of the integer bits."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...golden.fixed import Q4_12
from ...golden.nn.celoss import LABEL, CelossSpec
from ..ports import members


class Celoss(wiring.Component):
    """One word a cycle, latency 1. A label waits on its stream until the last word of its sample is taken."""

    def __init__(self, spec: CelossSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given, result = self.i.payload, self.o.payload
        place = Signal(LABEL.width)
        full, move = Signal(), Signal()
        m.d.comb += [
            move.eq(~full | self.o.ready),
            self.i.ready.eq(move & self.label.valid),
            self.label.ready.eq(move & self.i.valid & given.last),
            self.o.valid.eq(full),
        ]
        taken = self.i.valid & self.label.valid
        fraction, whole = given.probability[: Q4_12.fraction], given.probability[Q4_12.fraction :]
        gradient, last = Signal(Q4_12.width, reset_less=True), Signal(reset_less=True)
        with m.If(move):
            m.d.sync += [
                full.eq(taken),
                last.eq(given.last),
                gradient.eq(Cat(fraction, (whole - (place == self.label.payload.label))[: len(whole)])),
            ]
            with m.If(taken):
                m.d.sync += place.eq(place + 1)
                with m.If(given.last):
                    m.d.sync += place.eq(0)
        m.d.comb += [result.gradient.eq(gradient), result.last.eq(last)]
        return m
