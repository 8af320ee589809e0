"""Record packer: beats of a sample's record, in NF4 or Q8.16, from the stages' outputs block by block."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.lora.mapping import AdapterMapping
from ....golden.lora.memories import quantiser
from ...nf4.nf4_quant import Nf4Quant
from ...nn.interfaces import BEATS, StageOutputs
from .output_place import OutputPlace, PairPlace
from .word_packers import CodePacker, ValuePacker


class RecordPacker(wiring.Component):
    """Reads the stages' outputs as they are filled, `packed_at_once` values a cycle, a cycle from stage to stage.

    Two values in a cycle belong to the same block; an odd block ends with a single value.

    Attributes
    ----------
    raw : In(1)
        The record is in Q8.16, four bytes a value; stable during a record.
    outputs : In, `StageOutputs`
        Outputs of all stages, from the forward engine.
    done : Out(1)
        The record's last beat is on offer from the next cycle on.
    o : Out stream of beats
        `AdapterMapping.record_beats` or `raw_beats` beats a record: codes, then scales; or values.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        self.mapping = mapping
        outputs = StageOutputs(mapping.forward, mapping.packed_at_once)
        super().__init__({"raw": In(1), "outputs": In(outputs), "done": Out(1), "o": Out(BEATS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        m.submodules.quant = quant = Nf4Quant(quantiser(mapping))
        m.submodules.codes = codes = CodePacker(mapping)
        m.submodules.words = words = ValuePacker(mapping)
        valid, last, advance = Signal(), Signal(), Signal()
        if mapping.packed_at_once == 2:
            valid, last = self._pairs(m, quant, codes, words, advance)
        else:
            self._fetch(m, OutputPlace(mapping, self.outputs), valid, last, advance)
            m.d.comb += [
                quant.i.payload.value.eq(self.outputs.value),
                words.i.payload.value.eq(self.outputs.value),
                codes.i.payload.eq(quant.o.payload),
            ]
        m.d.comb += [
            quant.i.valid.eq(valid & ~self.raw),
            quant.i.payload.last.eq(last),
            words.i.valid.eq(valid & self.raw),
            words.i.payload.last.eq(last),
            advance.eq(~valid | Mux(self.raw, words.i.ready, quant.i.ready)),
            codes.i.valid.eq(quant.o.valid),
            quant.o.ready.eq(codes.i.ready),
            self.o.valid.eq(Mux(self.raw, words.o.valid, codes.o.valid)),
            self.o.payload.eq(Mux(self.raw, words.o.payload, codes.o.payload)),
            words.o.ready.eq(self.o.ready & self.raw),
            codes.o.ready.eq(self.o.ready & ~self.raw),
            self.done.eq(words.done | codes.done),
        ]
        return m

    def _pairs(
        self, m: Module, quant: Nf4Quant, codes: CodePacker, words: ValuePacker, advance: Signal
    ) -> tuple[Signal, Signal]:
        """Read two values a cycle, with an output register; return flags of validity and of a block's end."""
        mapping, outputs, results = self.mapping, self.outputs, quant.o.payload
        fetched, fetched_last, place = Signal(), Signal(), PairPlace(mapping, outputs)
        last_value = self._fetch(m, place, fetched, fetched_last, advance)
        valid, last = Signal(name="pair_valid"), Signal(name="pair_last", reset_less=True)
        fetched_single, last_single = Signal(reset_less=True), Signal(reset_less=True)
        values = [Signal.like(outputs.value, name=f"value{number}", reset_less=True) for number in range(2)]
        with m.If(advance):
            m.d.sync += [
                fetched_single.eq(last_value & place.odd),
                valid.eq(fetched),
                last.eq(fetched_last),
                last_single.eq(fetched_single),
                values[0].eq(outputs.value),
                values[1].eq(outputs.second_value),
            ]
        m.d.comb += [
            Value.cast(quant.i.payload.value).eq(Cat(values)),
            quant.i.payload.single.eq(last_single),
            words.i.payload.value.eq(values[0]),
            words.i.payload.second.eq(values[1]),
            words.i.payload.single.eq(last_single),
            Cat(codes.i.payload.code, codes.i.payload.second).eq(results.code),
            codes.i.payload.single.eq(results.single),
            codes.i.payload.scale.eq(results.scale),
            codes.i.payload.last.eq(results.last),
        ]
        return valid, last

    def _fetch(self, m: Module, place: OutputPlace, valid: Signal, last: Signal, advance: Signal) -> Signal:
        """Read a stage's values; return the flag of a block's last values.

        Flags computed a cycle ahead keep the late `advance` out of the paths of the state machine.
        """
        mapping, at_once = self.mapping, self.mapping.packed_at_once
        stage = Signal(range(len(mapping.forward.stages)))
        count = Signal(range(max(c for c, _ in mapping.blocks) + 1), reset_less=True)
        length = Signal(range(-(-longest_of(mapping) // at_once) + 1), reset_less=True)
        block, position = (
            Signal.like(like, name=name, reset_less=True) for name, like in (("block", count), ("position", length))
        )
        # last value of the block, last block of the tensor
        last_value, last_block = Signal(), Signal()
        clear = Signal(len(mapping.forward.stages))
        full = Signal(len(mapping.forward.stages))
        m.d.sync += full.eq((full & ~clear) | self.outputs.filled)
        m.d.comb += [self.outputs.full.eq(full), self.outputs.enable.eq(advance)]
        place.connect(m)
        with m.If(advance):
            m.d.sync += valid.eq(0)
        with m.FSM() as fsm:
            with m.State("WAIT"):
                with m.Switch(stage):
                    for number, (stage_mapping, (blocks, values)) in enumerate(
                        zip(mapping.forward.stages, mapping.blocks, strict=True)
                    ):
                        words = -(-values // at_once)
                        with m.Case(number):
                            place.load(m, stage_mapping, blocks, values)
                            m.d.sync += [
                                count.eq(blocks - 1),
                                length.eq(words - 1),
                                last_value.eq(words == 1),
                                last_block.eq(blocks == 1),
                            ]
                            with m.If(full[number]):
                                m.next = "READ"
                m.d.sync += [block.eq(0), position.eq(0)]
                place.restart(m)
            with m.State("READ"), m.If(advance):
                m.d.sync += [
                    valid.eq(1),
                    last.eq(last_value),
                    position.eq(position + 1),
                    last_value.eq(position + 1 == length),
                ]
                with m.If(last_value):
                    m.d.sync += [position.eq(0), last_value.eq(length == 0), last_block.eq(block + 1 == count)]
                place.step(m, last_value)
                with m.If(last_value):
                    m.d.sync += block.eq(block + 1)
                    with m.If(last_block):
                        with m.Switch(stage):
                            for number in range(len(mapping.forward.stages)):
                                with m.Case(number):
                                    m.d.comb += clear[number].eq(1)
                        m.d.sync += stage.eq(Mux(stage == len(mapping.forward.stages) - 1, 0, stage + 1))
                        m.next = "WAIT"
        # first address of the columns' current channels; outside the states, as `advance` is late
        reading = fsm.ongoing("READ")
        with m.If(~reading | (advance & last_value & place.wrapped)):
            m.d.sync += place.group.eq(Mux(reading, place.behind, place.start))
        return last_value


def longest_of(mapping: AdapterMapping) -> int:
    """Values of the longest block."""
    return max(length for _, length in mapping.blocks)
