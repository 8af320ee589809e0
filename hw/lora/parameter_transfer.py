"""Parameters from the memory outside to the engine's memories, and the adapters back."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.mapping import AdapterMapping
from ..axi.bursts import command


class Transfer(wiring.Component):
    """Loads a beat a cycle; stores one in four.

    Attributes
    ----------
    load, frozen, save, address, done
        Load adapters, or frozen parameters, or store adapters, from or to an address.
    read, i
        The reader's command and its beats.
    kind, place, data
        A beat for weights, biases, A or B, and its number among them.
    a_place, a_data
        A beat of the adapters' image, two cycles later.
    write, o
        The writer's command, and its beats.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        self.mapping = mapping
        super().__init__(
            {
                **dict.fromkeys(("load", "frozen", "save"), In(1)),
                "address": In(32),
                "done": Out(1),
                "read": Out(command(32)),
                "i": In(stream.Signature(128)),
                "kind": Out(4),
                "place": Out(range(max(mapping.forward.frozen_beats, mapping.adapter_beats))),
                "data": Out(128),
                "a_place": Out(range(mapping.adapter_beats)),
                "a_data": In(128),
                "write": Out(command(32)),
                "o": Out(stream.Signature(128)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        frozen, second, place = Signal(), Signal(), Signal.like(self.place)
        left = Signal(range(max(mapping.forward.frozen_beats, mapping.adapter_beats) + 1))
        beats = Mux(frozen, mapping.forward.frozen_beats, mapping.adapter_beats)
        border = Mux(frozen, mapping.forward.weight_words, mapping.adapter_rows) * mapping.forward.word_beats
        pause = Signal(2)
        m.d.comb += [
            self.read.payload.address.eq(self.address),
            self.read.payload.beats.eq(beats),
            self.write.payload.address.eq(self.address),
            self.write.payload.beats.eq(mapping.adapter_beats),
            self.a_place.eq(place),
            self.i.ready.eq(1),
            self.o.payload.eq(self.a_data),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [place.eq(0), second.eq(0), frozen.eq(self.frozen), pause.eq(3)]
                with m.If(self.load | self.frozen):
                    m.next = "READ"
                with m.If(self.save):
                    m.next = "WRITE"
            with m.State("READ"):
                m.d.comb += self.read.valid.eq(1)
                m.d.sync += left.eq(beats)
                with m.If(self.read.ready):
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(self.i.valid):
                m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
                with m.If(~second & (place == border - 1)):
                    m.d.sync += [place.eq(0), second.eq(1)]
                with m.If(left == 1):
                    m.next = "SETTLE"
            with m.State("WRITE"):
                m.d.comb += self.write.valid.eq(1)
                m.d.sync += left.eq(mapping.adapter_beats)
                with m.If(self.write.ready):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                m.d.sync += pause.eq(3)
                with m.If(self.o.ready):
                    m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
                    m.next = "FETCH"
                    with m.If(left == 1):
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        kind = Mux(frozen, Mux(second, 2, 1), Mux(second, 8, 4))
        m.d.sync += [
            self.kind.eq(Mux(self.i.valid, kind, 0)),
            self.place.eq(place),
            self.data.eq(self.i.payload),
        ]
        return m
