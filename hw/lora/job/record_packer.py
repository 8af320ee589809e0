"""Record packer: a sample's record from the stages' outputs, block by block, in NF4 or in Q8.16, as beats."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.lora.mapping import SCALES, ZERO_CODE, AdapterMapping
from ....golden.lora.memories import written_scale_memory
from ....golden.nf4.nf4_quant import Nf4QuantSpec
from ...nf4.nf4_quant import Nf4Quant
from ...nn.interfaces import ACTIVATION, BEAT_BITS, BEATS, StageOutputs
from ...primitives.ram import ram


class RecordPacker(wiring.Component):
    """Read the stages' outputs as they are filled, one value a cycle, and one cycle from stage to stage.

    Parameters
    ----------
    mapping : AdapterMapping

    Attributes
    ----------
    raw : In, 1
        The record is in Q8.16, four bytes a value; stays the same during a record.
    outputs : In, `StageOutputs`
        From the forward engine; of all stages.
    done : Out, 1
        The record's last beat is made; it is on offer from the next cycle on.
    o : Out stream of beats
        `AdapterMapping.record_beats` or `raw_beats` beats a record: the codes, then the scales; or the values.
    """

    def __init__(self, mapping: AdapterMapping) -> None:
        self.mapping = mapping
        super().__init__({"raw": In(1), "outputs": In(StageOutputs(mapping.forward)), "done": Out(1), "o": Out(BEATS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        m.submodules.quant = quant = Nf4Quant(Nf4QuantSpec(length=longest_of(mapping)))
        m.submodules.codes = codes = CodePacker(mapping)
        m.submodules.words = words = ValuePacker(mapping)
        valid, last, advance = Signal(), Signal(), Signal()
        self._fetch(m, valid, last, advance)
        m.d.comb += [
            quant.i.valid.eq(valid & ~self.raw),
            quant.i.payload.value.eq(self.outputs.value),
            quant.i.payload.last.eq(last),
            words.i.valid.eq(valid & self.raw),
            words.i.payload.value.eq(self.outputs.value),
            words.i.payload.last.eq(last),
            advance.eq(~valid | Mux(self.raw, words.i.ready, quant.i.ready)),
            codes.i.valid.eq(quant.o.valid),
            codes.i.payload.eq(quant.o.payload),
            quant.o.ready.eq(codes.i.ready),
            self.o.valid.eq(Mux(self.raw, words.o.valid, codes.o.valid)),
            self.o.payload.eq(Mux(self.raw, words.o.payload, codes.o.payload)),
            words.o.ready.eq(self.o.ready & self.raw),
            codes.o.ready.eq(self.o.ready & ~self.raw),
            self.done.eq(words.done | codes.done),
        ]
        return m

    def _fetch(self, m: Module, valid: Signal, last: Signal, advance: Signal) -> None:
        """Read a stage's values channel by channel, or those of a vector across the columns.

        Longer than most: one state machine with the flags that keep `advance`, which comes late, out of its paths.
        """
        mapping = self.mapping
        columns = mapping.columns
        stage = Signal(range(len(mapping.forward.stages)))
        start, group, address = (
            Signal.like(self.outputs.address, name=name, reset_less=True) for name in ("start", "group", "address")
        )
        column = Signal(exact_log2(columns), reset_less=True)
        count = Signal(range(max(c for c, _ in mapping.blocks) + 1), reset_less=True)
        length = Signal(range(longest_of(mapping) + 1), reset_less=True)
        block, position = (
            Signal.like(like, name=name, reset_less=True) for name, like in (("block", count), ("position", length))
        )
        # where two outputs were written at once: columns to the right one, and whether it is that one's turn
        spreads = any(one.spread for one in mapping.forward.stages)
        spread, right = Signal.like(column, name="spread"), Signal(reset_less=True)
        # the value is its block's last, the block its tensor's, the column the last
        last_value, last_block, wrapped = Signal(), Signal(), Signal()
        vector = Signal()
        clear = Signal(len(mapping.forward.stages))
        full = Signal(len(mapping.forward.stages))
        m.d.sync += full.eq((full & ~clear) | self.outputs.filled)
        m.d.comb += [
            self.outputs.full.eq(full),
            self.outputs.enable.eq(advance),
            self.outputs.address.eq(address),
            self.outputs.column.eq(column + Mux(right, spread, 0) if spreads else column),
        ]
        with m.If(advance):
            m.d.sync += valid.eq(0)
        with m.FSM() as fsm:
            with m.State("WAIT"):
                with m.Switch(stage):
                    for number, (stage_mapping, (blocks, values)) in enumerate(
                        zip(mapping.forward.stages, mapping.blocks, strict=True)
                    ):
                        with m.Case(number):
                            m.d.comb += start.eq(stage_mapping.output)
                            m.d.sync += [
                                address.eq(stage_mapping.output),
                                count.eq(blocks - 1),
                                length.eq(values - 1),
                                last_value.eq(values == 1),
                                last_block.eq(blocks == 1),
                                vector.eq(blocks * values == stage_mapping.channels and blocks == 1),
                                *([spread.eq(stage_mapping.spread)] if spreads else []),
                            ]
                            with m.If(full[number]):
                                m.next = "READ"
                m.d.sync += [block.eq(0), position.eq(0), column.eq(0), wrapped.eq(0)]
                if spreads:
                    m.d.sync += right.eq(0)
            with m.State("READ"), m.If(advance):
                m.d.sync += [
                    valid.eq(1),
                    last.eq(last_value),
                    position.eq(position + 1),
                    last_value.eq(position + 1 == length),
                ]
                with m.If(last_value):
                    m.d.sync += [position.eq(0), last_value.eq(length == 0), last_block.eq(block + 1 == count)]
                with m.If(vector | last_value):
                    m.d.sync += [column.eq(column + 1), wrapped.eq(column == columns - 2)]
                with m.If(vector):
                    m.d.sync += address.eq(address + wrapped)
                with m.Elif(last_value):
                    m.d.sync += address.eq(Mux(wrapped, address + 1, group))
                with m.Else():
                    m.d.sync += address.eq(address + (right | ~spread.any() if spreads else 1))
                if spreads:
                    m.d.sync += right.eq(~right & spread.any())
                with m.If(last_value):
                    m.d.sync += block.eq(block + 1)
                    with m.If(last_block):
                        with m.Switch(stage):
                            for number in range(len(mapping.forward.stages)):
                                with m.Case(number):
                                    m.d.comb += clear[number].eq(1)
                        m.d.sync += stage.eq(Mux(stage == len(mapping.forward.stages) - 1, 0, stage + 1))
                        m.next = "WAIT"
        # the first address of the columns' present channels; outside the states, as `advance` comes late
        reading = fsm.ongoing("READ")
        with m.If(~reading | (advance & last_value & wrapped)):
            m.d.sync += group.eq(Mux(reading, address + 1, start))


class WordPacker(wiring.Component):
    """Find where a record's words end: after the last lane, with the last block that has room, and with a tensor.

    Parameters
    ----------
    mapping : AdapterMapping
    item : Shape
        An item of the stream `i`, with a bit `last` on a block's last one.

    Attributes
    ----------
    i : In stream of items
        The items of a record, one after the other.
    o : Out stream of beats
        Each word begins on a beat of its own.
    done : Out, 1
        The record's last beat is made, for one cycle; it is on offer from the next cycle on.
    """

    def __init__(self, mapping: AdapterMapping, item: data.StructLayout) -> None:
        self.mapping = mapping
        super().__init__({"i": In(stream.Signature(item)), "o": Out(BEATS), "done": Out(1)})

    def _close(self, m: Module, taken: Signal) -> tuple[Signal, Signal, Signal]:
        """Return the lane of the value on offer, whether it closes its word, and whether it ends the record."""
        mapping = self.mapping
        lane, parts = Signal(range(mapping.lanes)), Signal(range(SCALES))
        counts = [count for count, _ in mapping.blocks]
        tensor = Signal(range(len(counts)))
        # blocks left of the tensor, and whether this is its last
        left, only = Signal(range(max(counts)), init=counts[0] - 1), Signal(init=counts[0] == 1)
        end, close, final = Signal(), Signal(), Signal()
        last = self.i.payload.last
        m.d.comb += [
            end.eq(last & only),
            close.eq((lane == mapping.lanes - 1) | end | (last & (parts == SCALES - 1))),
            final.eq(end & (tensor == len(mapping.blocks) - 1)),
        ]
        with m.If(taken):
            m.d.sync += [lane.eq(Mux(close, 0, lane + 1)), parts.eq(Mux(close, 0, parts + last))]
            with m.If(end):
                m.d.sync += tensor.eq(Mux(final, 0, tensor + 1))
                with m.Switch(tensor):
                    for number in range(len(counts)):
                        following = counts[(number + 1) % len(counts)]
                        with m.Case(number):
                            m.d.sync += [left.eq(following - 1), only.eq(following == 1)]
            with m.Elif(last):
                m.d.sync += [left.eq(left - 1), only.eq(left == 1)]
        return lane, close, final


class CodePacker(WordPacker):
    """Pack NF4 codes into beats of 32, the first lowest, then all scales of the record. Ports: see `WordPacker`."""

    def __init__(self, mapping: AdapterMapping) -> None:
        scale = unsigned(Q8_16.width - 1)
        super().__init__(mapping, data.StructLayout({"code": unsigned(4), "scale": scale, "last": 1}))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, flush = Signal(BEAT_BITS, reset_less=True), Signal(), Signal()
        taken = Signal()
        lane, close, final = self._close(m, taken)
        m.submodules.scales = scales = ram(
            platform, written_scale_memory(mapping), data.ArrayLayout(unsigned(32), SCALES)
        )
        store, fetch = scales.write_port(granularity=1), scales.read_port()
        number = Signal(range(mapping.scale_beats * SCALES + 1))
        m.d.comb += [
            store.addr.eq(number[2:]),
            store.en.eq(Mux(taken & self.i.payload.last, 1 << number[:2], 0)),
            *(part.eq(self.i.payload.scale) for part in store.data),
        ]
        free = ~offered | self.o.ready
        m.d.comb += [taken.eq(self.i.valid & self.i.ready), self.i.ready.eq(~flush & free)]
        m.d.comb += [self.o.valid.eq(offered), self.o.payload.eq(word)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            fresh = Signal()
            m.d.comb += fresh.eq(lane == 0)
            # a narrow word is padded to the end of its beat
            for at in range(BEAT_BITS // 4):
                with m.If(lane == at if at < mapping.lanes else 0):
                    m.d.sync += word.word_select(at, 4).eq(self.i.payload.code)
                with m.Elif(fresh):
                    m.d.sync += word.word_select(at, 4).eq(ZERO_CODE)
            m.d.sync += [offered.eq(close), flush.eq(final), number.eq(number + self.i.payload.last)]
        beat, ready = Signal(range(mapping.scale_beats + 1)), Signal()
        m.d.comb += fetch.addr.eq(beat)
        with m.If(flush & free):
            m.d.sync += ready.eq(1)
            with m.If(ready):
                m.d.sync += [word.eq(fetch.data), offered.eq(1), ready.eq(0), beat.eq(beat + 1)]
                with m.If(beat == mapping.scale_beats - 1):
                    m.d.sync += [word.eq(self._filled(fetch.data.as_value())), flush.eq(0), beat.eq(0), number.eq(0)]
                    m.d.comb += self.done.eq(1)
        return m

    def _filled(self, row: Value) -> Value:
        """The last beat of scales: places without one, which nothing has written, are zero."""
        used = 32 * (sum(count for count, _ in self.mapping.blocks) % SCALES or SCALES)
        return Cat(row[:used], Const(0, BEAT_BITS - used))


class ValuePacker(WordPacker):
    """Pack values into beats of four, each in 32 bits; words are filled up with zeros. Ports: see `WordPacker`."""

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(mapping, data.StructLayout({"value": ACTIVATION, "last": 1}))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, fill, ends = Signal(BEAT_BITS, reset_less=True), Signal(), Signal(), Signal()
        taken, free = Signal(), Signal()
        lane, close, final = self._close(m, taken)
        left = Signal(range(mapping.lanes // 4))
        m.d.comb += [
            free.eq(~offered | self.o.ready),
            self.i.ready.eq(~fill & free),
            taken.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(offered),
            self.o.payload.eq(word),
        ]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            for at in range(4):
                with m.If(lane[:2] == at):
                    m.d.sync += word.word_select(at, 32).eq(self.i.payload.value)
                with m.Elif(lane[:2] == 0):
                    m.d.sync += word.word_select(at, 32).eq(0)
            full = lane[:2] == 3
            short = close & (lane[2:] != mapping.lanes // 4 - 1)
            m.d.sync += [offered.eq(full | close), left.eq(mapping.lanes // 4 - 2 - lane[2:]), fill.eq(short)]
            m.d.sync += ends.eq(final)
            with m.If(final & ~short):
                m.d.comb += self.done.eq(1)
        with m.Elif(fill & free):
            m.d.sync += [word.eq(0), offered.eq(1), left.eq(left - 1)]
            with m.If(left == 0):
                m.d.sync += fill.eq(0)
                m.d.comb += self.done.eq(ends)
        return m


def longest_of(mapping: AdapterMapping) -> int:
    """Return the number of values of the longest block."""
    return max(length for _, length in mapping.blocks)
