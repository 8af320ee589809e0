"""Logits to beats of four, a sample's begun on a beat of its own."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.lora.mapping import AdapterMapping
from ..axi.bursts import command
from .logit_head import LOGIT


class Logits(wiring.Component):
    """One logit a cycle; before each sample's first beat goes its write command.

    Attributes
    ----------
    start, address
        The next sample's logits go there, and those that follow behind them.
    i, command, o
        Logits, and what the writer takes.
    empty
        Nothing waits.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        self.mapping = mapping
        super().__init__(
            {
                "start": In(1),
                "address": In(32),
                "i": In(LOGIT),
                "command": Out(command(32)),
                "o": Out(stream.Signature(128)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beats = self.mapping.logit_beats
        place, lane = Signal(32), Signal(2)
        asked, offered = Signal(), Signal()
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.command.valid.eq(self.i.valid & ~asked),
            self.command.payload.address.eq(place),
            self.command.payload.beats.eq(beats),
            self.i.ready.eq(asked & (~offered | self.o.ready)),
            self.o.valid.eq(offered),
            self.empty.eq(~offered & (lane == 0) & ~asked),
        ]
        with m.If(self.start):
            m.d.sync += place.eq(self.address)
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [asked.eq(1), place.eq(place + beats * BEAT)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            last = self.i.payload.last
            m.d.sync += [lane.eq(Mux(last, 0, lane + 1)), offered.eq(last | (lane == 3))]
            for at in range(4):
                with m.If(lane == at):
                    m.d.sync += self.o.payload.word_select(at, 32).eq(self.i.payload.logit)
                with m.Elif(lane == 0):
                    m.d.sync += self.o.payload.word_select(at, 32).eq(0)
            with m.If(last):
                m.d.sync += asked.eq(0)
        return m
