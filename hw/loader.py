"""A batch's samples and records, as beats, into the batch memory's words of Q8.16."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..golden.fixed import Q8_16
from ..golden.nf4_dequant import Nf4DequantSpec
from ..golden.plan import SCALES, Plan, Word
from .nf4_dequant import Nf4Dequant
from .outputs import VALUE

PIXELS = 16
"""Of a beat."""


def pixel(value: Value) -> Value:
    """A byte as Q8.16: the nearest to p / 255."""
    return Cat(value, value) + value[-1]


class Loader(wiring.Component):
    """Takes beats in the order of the samples: the sample, its scales, its codes; raw: the sample, its record.

    Attributes
    ----------
    raw
        Records are in Q8.16.
    start, count, address
        A batch of so many samples, to words from an address on.
    busy
        Until its last word is written.
    i : In stream of beats
    write, write_address, word
        To the batch memory.
    """

    def __init__(self, plan: Plan, batch: int) -> None:
        self.plan, self.batch = plan, batch
        self.depth = 2 * batch * words_of(plan)
        super().__init__(
            {
                **dict.fromkeys(("raw", "start"), In(1)),
                "count": In(range(batch + 1)),
                "address": In(range(self.depth)),
                "busy": Out(1),
                "i": In(stream.Signature(128)),
                "write": Out(1),
                "write_address": Out(range(self.depth)),
                "word": Out(data.ArrayLayout(VALUE, plan.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        records = record_words(plan)
        m.submodules.dequant = dequant = Nf4Dequant(Nf4DequantSpec(lanes=plan.lanes, scales=SCALES))
        take = Signal()
        beat = self.i.payload
        m.d.comb += [take.eq(self.i.valid & self.i.ready), dequant.o.ready.eq(1)]

        samples = Signal.like(self.count)
        slot = Signal(range(max(plan.lanes // 4, 2)))
        number = Signal(range(max(plan.sample_beats, plan.raw_beats, plan.lanes) + 1))
        word = Signal(range(max(len(records), 2)))
        flying = Signal(4)
        assembled = [Signal(VALUE, name=f"assembled{lane}") for lane in range(plan.lanes)]
        full = Signal()
        m.d.sync += full.eq(0)
        state_begin = "SAMPLE" if plan.first == 0 else "RECORD"
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [number.eq(0), slot.eq(0), word.eq(0)]
                with m.If(self.start):
                    m.d.sync += [samples.eq(self.count), self.write_address.eq(self.address - 1)]
                    m.next = state_begin
            with m.State("SAMPLE"):
                # what the pipeline of the codes still holds is written first
                m.d.comb += self.i.ready.eq(flying == 0)
                with m.If(take):
                    per_word = plan.lanes // (PIXELS if plan.pixels else 4)
                    end = number == plan.sample_beats - 1
                    self._assemble(m, assembled, slot, beat, PIXELS if plan.pixels else 4)
                    m.d.sync += number.eq(Mux(end, 0, number + 1))
                    with m.If(end | (slot == per_word - 1)):
                        m.d.sync += [slot.eq(0), full.eq(1)]
                    with m.Else():
                        m.d.sync += slot.eq(slot + 1)
                    with m.If(end):
                        m.next = "RECORD"
            with m.State("RECORD"):
                with m.If(self.raw):
                    m.next = "RAW"
                with m.Else():
                    m.next = "SCALES"
            with m.State("RAW"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(take):
                    end = number == len(records) * plan.lanes // 4 - 1
                    self._assemble(m, assembled, slot, beat, 4)
                    m.d.sync += [number.eq(Mux(end, 0, number + 1)), slot.eq(slot + 1)]
                    with m.If(slot == plan.lanes // 4 - 1):
                        m.d.sync += [slot.eq(0), full.eq(1)]
                    with m.If(end):
                        m.next = "NEXT"
            with m.State("SCALES"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(take):
                    m.d.sync += number.eq(number + 1)
                    with m.If(number == plan.scale_beats - 1):
                        m.d.sync += number.eq(0)
                        m.next = "CODES"
            with m.State("CODES"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(take):
                    m.d.sync += word.eq(word + 1)
                    with m.If(word == len(records) - 1):
                        m.d.sync += word.eq(0)
                        m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += samples.eq(samples - 1)
                m.next = "FLUSH"
                with m.If(samples != 1):
                    m.next = state_begin
            with m.State("FLUSH"), m.If(flying == 0):
                m.next = "SETTLE"
            with m.State("SETTLE"):
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        self._scales(m, dequant, take & fsm.ongoing("SCALES"), take & fsm.ongoing("CODES"), number, word)
        m.d.sync += flying.eq(flying + (take & fsm.ongoing("CODES")) - dequant.o.valid)
        m.d.sync += self.write.eq(full | dequant.o.valid)
        with m.If(full | dequant.o.valid):
            m.d.sync += self.write_address.eq(self.write_address + 1)
            for into, decoded, whole in zip(self.word, dequant.o.payload.value, assembled, strict=True):
                m.d.sync += into.eq(Mux(full, whole, decoded))
        return m

    def _assemble(self, m: Module, word: list[Signal], slot: Signal, beat: Value, values: int) -> None:
        """A beat's values at their place of the word; the first beat clears the rest."""
        for lane, into in enumerate(word):
            part = beat.word_select(lane % values, 128 // values)
            value = pixel(part) if values == PIXELS else part[: VALUE.width].as_signed()
            with m.If(slot == lane // values):
                m.d.sync += into.eq(value)
            with m.Elif(slot == 0):
                m.d.sync += into.eq(0)

    def _scales(self, m: Module, dequant: Nf4Dequant, store: Value, code: Value, row: Signal, word: Signal) -> None:
        """Four neighbouring scales for each word of codes, and which of them each lane takes."""
        plan = self.plan
        records = record_words(plan)
        block = Signal(range(plan.scales + 1))
        borders = [Signal(range(plan.lanes + 1), name=f"border{at}") for at in range(SCALES - 1)]
        with m.Switch(word):
            for number, one in enumerate(records):
                ends = (*one.borders, *(plan.lanes,) * SCALES)
                with m.Case(number):
                    m.d.comb += block.eq(one.block)
                    m.d.sync += [border.eq(end) for border, end in zip(borders, ends, strict=False)]
        turn, valid, codes = Signal(exact_log2(SCALES)), Signal(), Signal(128)
        m.d.sync += [turn.eq(block[:2]), valid.eq(code)]
        with m.If(code):
            m.d.sync += codes.eq(self.i.payload)
        found = []
        for number in range(SCALES):
            bank = memory.Memory(shape=unsigned(Q8_16.width - 1), depth=plan.scale_beats + 1, init=[])
            m.submodules[f"scales{number}"] = bank
            into, port = bank.write_port(), bank.read_port()
            m.d.comb += [
                into.en.eq(store),
                into.addr.eq(row),
                into.data.eq(self.i.payload.word_select(number, 32)),
                port.addr.eq(block[2:] + (number < block[:2])),
            ]
            found.append(port.data)
        given = dequant.i.payload
        m.d.comb += dequant.i.valid.eq(valid)
        for at in range(SCALES):
            m.d.comb += given.scale[at].eq(Array(found[(at + by) % SCALES] for by in range(SCALES))[turn])
        for lane in range(plan.lanes):
            m.d.comb += [
                given.code[lane].eq(codes.word_select(lane, 4)),
                given.select[lane].eq(sum((border <= lane for border in borders), Const(0, 1))),
            ]


def record_words(plan: Plan) -> list[Word]:
    """Of a record, those that a batch needs: the adapters' inputs and the base logits."""
    return [word for words in plan.record_words[max(plan.first - 1, 0) :] for word in words]


def words_of(plan: Plan) -> int:
    """Words of a sample in the batch memory: all adapters' inputs, then the base logits."""
    return plan.tiles + len(plan.record_words[-1])
