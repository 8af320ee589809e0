"""RTL of `conv`, `depthwise` and `fc`: forward engine of a single stage, with streams."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.array.mapping import Mapping
from ...golden.nn.layer_block import LayerBlockSpec
from ..ports import elements, members
from .forward_engine import ForwardEngine
from .interfaces import ACTIVATION, BEATS
from .memories.output_memory import OutputReader
from .sample_writer import WORDS_PER_BEAT


class LayerBlock(wiring.Component):
    """Streams around a forward engine: an activation in, a word, and an activation out a cycle.

    The next sample enters during a computation, and is computed when the preceding outputs have left, or the last is on
    offer. Whole parameter images are taken between samples; samples only after the first image since reset.
    """

    def __init__(self, spec: LayerBlockSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.spec.mapping
        m.submodules.engine = engine = ForwardEngine(mapping)
        m.submodules.packer = packer = BeatPacker(mapping)
        m.submodules.reader = reader = OutputReader(mapping)
        wiring.connect(m, packer.o, engine.sample.beats)
        wiring.connect(m, engine.outputs, reader.outputs)
        sample = engine.sample
        entering, coming, begin = Signal(), Signal(), Signal()
        inside, idle, loaded = Signal(2), Signal(init=1), Signal()
        beat = Cat(elements(self.load.payload.parameter, self.spec.streams()["load"].fields[0]))
        m.d.comb += [
            engine.load.valid.eq(self.load.valid & self.load.ready),
            engine.load.payload.eq(beat),
            self.load.ready.eq(idle & engine.load.ready),
            begin.eq(~coming & self.i.valid & sample.room & loaded & ~self.load.valid),
            packer.start.eq(begin),
            packer.i.valid.eq(self.i.valid),
            packer.i.payload.eq(self.i.payload.activation),
            self.i.ready.eq(packer.i.ready),
            # a cycle later, as the first beat
            sample.start.eq(entering),
            self.o.valid.eq(reader.o.valid),
            self.o.payload.activation.eq(reader.o.payload),
            reader.o.ready.eq(self.o.ready),
        ]
        m.d.sync += [
            entering.eq(begin),
            coming.eq((coming | begin) & ~sample.done),
            inside.eq(inside + begin - engine.done),
            idle.eq((inside == 0) & ~begin),
        ]
        with m.If(engine.load.valid):
            m.d.sync += loaded.eq(engine.loaded)
        return m


class BeatPacker(wiring.Component):
    """Pack activations into beats; the last beat of a sample may be incomplete.

    Parameters
    ----------
    mapping : Mapping
        Values a sample.

    Attributes
    ----------
    start : In, 1
        A sample begins; all beats of the preceding sample are taken.
    i : In stream of Q8.16
        Activations; ready from `start` to the sample's last, except while a beat waits.
    o : Out stream of beats
        Four activations of 32 bits, the first lowest. Values beyond the sample's last are from an earlier beat.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.total = mapping.inputs
        super().__init__({"start": In(1), "i": In(stream.Signature(ACTIVATION)), "o": Out(BEATS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # remaining activations less two: negative at the last
        left, taking = Signal(signed(self.total.bit_length() + 1)), Signal()
        slot, offered = Signal(2), Signal()
        beat = [Signal(ACTIVATION, name=f"value{place}") for place in range(WORDS_PER_BEAT)]
        m.d.comb += [
            self.i.ready.eq(taking & ~offered),
            self.o.valid.eq(offered),
            *(self.o.payload.word_select(place, 32).eq(value) for place, value in enumerate(beat)),
        ]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(self.start):
            m.d.sync += [left.eq(self.total - 2), slot.eq(0), taking.eq(1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), slot.eq(slot + 1), taking.eq(~left[-1])]
            m.d.sync += offered.eq((slot == WORDS_PER_BEAT - 1) | left[-1])
            for place, value in enumerate(beat):
                with m.If(slot == place):
                    m.d.sync += value.eq(self.i.payload)
        return m
