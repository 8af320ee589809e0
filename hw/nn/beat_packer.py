"""Beat packer: a sample's activations, one a cycle, to beats of four."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.mapping import Mapping
from .interfaces import ACTIVATION, BEATS
from .sample_writer import WORDS_PER_BEAT


class BeatPacker(wiring.Component):
    """Collect activations; the last beat of a sample may have fewer.

    Parameters
    ----------
    mapping : Mapping
        Its number of values of a sample.

    Attributes
    ----------
    start : In, 1
        A sample begins; all beats of the one before have been taken.
    i : In stream of Q8.16
        Activations; ready from `start` to the sample's last one, and not while a beat waits.
    o : Out stream of beats
        Four activations in 32 bits each, the first lowest. Values beyond the sample's last one are those of a beat
        before.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.total = mapping.inputs
        super().__init__({"start": In(1), "i": In(stream.Signature(ACTIVATION)), "o": Out(BEATS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # activations behind the next one, less one: the sign says that the next one is the last
        left, taking = Signal(signed(self.total.bit_length() + 1)), Signal()
        slot, offered = Signal(2), Signal()
        beat = [Signal(ACTIVATION, name=f"value{at}") for at in range(WORDS_PER_BEAT)]
        m.d.comb += [
            self.i.ready.eq(taking & ~offered),
            self.o.valid.eq(offered),
            *(self.o.payload.word_select(at, 32).eq(value) for at, value in enumerate(beat)),
        ]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(self.start):
            m.d.sync += [left.eq(self.total - 2), slot.eq(0), taking.eq(1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), slot.eq(slot + 1), taking.eq(~left[-1])]
            m.d.sync += offered.eq((slot == WORDS_PER_BEAT - 1) | left[-1])
            for at, value in enumerate(beat):
                with m.If(slot == at):
                    m.d.sync += value.eq(self.i.payload)
        return m
