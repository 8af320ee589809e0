"""A batch's samples and records, as beats, into the batch memory's rows of Q8.16."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.fixed import Q8_16
from ...golden.lora.mapping import SCALES, AdapterMapping, Word
from ...golden.nf4.nf4_dequant import Nf4DequantSpec
from ..nf4.nf4_dequant import Nf4Dequant
from ..nn.interfaces import ACTIVATION
from ..nn.sample_writer import BYTES_PER_BEAT, activation_of_byte
from .job_interfaces import BatchLoad, BatchWrite


class BatchUnpacker(wiring.Component):
    """Writes a batch's samples and records, as values in Q8.16, into a half of the batch memory.

    Samples and records may come from two memories, so that each has a thread of its own. NF4 codes are dequantised, a
    word a cycle. All else, samples and raw records, is put together in one register of a word's size; where records
    are raw, the threads take turns, a sample, then its record.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.

    Attributes
    ----------
    load : In, `BatchLoad`
        Begins a batch; `busy` until its last word has been written.
    samples : In stream of 128-bit beats
        The batch's samples, one after the other; not used where no adapter takes the network's input.
    records : In stream of 128-bit beats
        The batch's records; of one in NF4 first the scales, then the codes.
    rows : Out, `BatchWrite`
        Writes to the batch memory.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        self.mapping, self.batch = mapping, batch
        beats = stream.Signature(128)
        super().__init__(
            {
                "load": In(BatchLoad(batch)),
                "samples": In(beats),
                "records": In(beats),
                "rows": Out(BatchWrite(mapping, batch)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        m.submodules.dequant = dequant = Nf4Dequant(Nf4DequantSpec(lanes=mapping.lanes, scales=SCALES))
        m.d.comb += dequant.o.ready.eq(1)
        decoded = dequant.o.valid
        # a word that is whole waits here while decoded ones are written
        assembled = [Signal(ACTIVATION, name=f"assembled{lane}") for lane in range(mapping.lanes)]
        full, recorded, turn = Signal(), Signal(), Signal()
        room, written = Signal(), Signal()
        m.d.comb += [room.eq(~full | ~decoded), written.eq(full & ~decoded)]
        with m.If(written):
            m.d.sync += full.eq(0)
        with m.If(self.load.start):
            m.d.sync += turn.eq(0)

        sampling, at_sample = Const(0, 1), Const(0, len(self.rows.address))
        if mapping.first == 0:
            sampling = self._samples(m, assembled, full, recorded, turn, room)
            at_sample, sample_flags = self._place(
                m, "sample", [_rows(mapping.sample_words, mapping.words_per_cycle)], written & ~recorded, 0
            )
        recording, flying = self._records(m, dequant, assembled, full, recorded, turn, room)
        kept = mapping.batch_words
        groups = [_rows(words, mapping.words_per_cycle) for words in kept]
        skipped = mapping.rows_per_adapter[0] if mapping.first == 0 else 0
        at_record, record_flags = self._place(m, "record", groups, decoded | (written & recorded), skipped)
        own = decoded | recorded
        second, alone = (
            (Mux(own, a, b) for a, b in zip(record_flags, sample_flags, strict=True))
            if mapping.first == 0
            else record_flags
        )
        m.d.comb += self.load.busy.eq(sampling | recording | flying.any() | full | self.rows.enable.any())
        m.d.sync += self.rows.enable.eq(0)
        with m.If(decoded | full):
            m.d.sync += self.rows.address.eq(Mux(own, at_record, at_sample))
            m.d.sync += self.rows.enable.eq(1 if mapping.words_per_cycle == 1 else Cat(~second, second | alone))
            for lane in range(mapping.lanes):
                value = Mux(decoded, dequant.o.payload.value[lane], assembled[lane])
                m.d.sync += self.rows.words[lane].eq(value)
                if mapping.words_per_cycle == 2:
                    m.d.sync += self.rows.words[mapping.lanes + lane].eq(Mux(alone, 0, value))
        return m

    def _samples(
        self, m: Module, assembled: list[Signal], full: Signal, recorded: Signal, turn: Signal, room: Value
    ) -> Value:
        """A sample's beats; whether there are more to come."""
        mapping = self.mapping
        per_beat = BYTES_PER_BEAT if mapping.forward.byte_inputs else 4
        per_word = mapping.lanes // per_beat
        left, beat, slot = (
            Signal.like(self.load.count),
            Signal(range(mapping.forward.sample_beats)),
            Signal(range(max(per_word, 2))),
        )
        more, take, end = Signal(), Signal(), Signal()
        m.d.comb += [
            self.samples.ready.eq(more & room & ~(self.load.raw & turn)),
            take.eq(self.samples.valid & self.samples.ready),
            end.eq(beat == mapping.forward.sample_beats - 1),
        ]
        with m.If(self.load.start):
            m.d.sync += [left.eq(self.load.count - 1), more.eq(1), beat.eq(0), slot.eq(0)]
        with m.If(take):
            self._assemble(m, assembled, slot, self.samples.payload, per_beat)
            close = end | (slot == per_word - 1)
            m.d.sync += [slot.eq(Mux(close, 0, slot + 1)), beat.eq(Mux(end, 0, beat + 1))]
            m.d.sync += [full.eq(close), recorded.eq(0)]
            with m.If(end):
                m.d.sync += [turn.eq(1), left.eq(left - 1), more.eq(left != 0)]
        return more

    def _records(
        self,
        m: Module,
        dequant: Nf4Dequant,
        assembled: list[Signal],
        full: Signal,
        recorded: Signal,
        turn: Signal,
        room: Value,
    ) -> tuple[Value, Signal]:
        """A record's beats; whether there are more to come, and how many codes are on their way."""
        mapping = self.mapping
        words = sum(map(len, mapping.batch_words))
        slots = mapping.lanes // 4
        left, slot = Signal.like(self.load.count), Signal(range(slots))
        number, word = Signal(range(max(mapping.scale_beats, 2))), Signal(range(words + 1))
        more, take, end, coding = Signal(), Signal(), Signal(), Signal()
        ended = Signal()
        beat = self.records.payload
        after_sample = turn if mapping.first == 0 else Const(1, 1)
        m.d.comb += [
            self.records.ready.eq(more & (~self.load.raw | (room & after_sample))),
            take.eq(self.records.valid & self.records.ready),
            end.eq(word == words - 1),
        ]
        with m.If(self.load.start):
            m.d.sync += [left.eq(self.load.count - 1), more.eq(1), number.eq(0), word.eq(0), slot.eq(0), coding.eq(0)]
        with m.If(take):
            with m.If(self.load.raw):
                self._assemble(m, assembled, slot, beat, 4)
                close = slot == slots - 1
                m.d.sync += [slot.eq(slot + 1), full.eq(close), recorded.eq(1)]
                with m.If(close):
                    m.d.comb += ended.eq(end)
                    m.d.sync += [slot.eq(0), word.eq(Mux(end, 0, word + 1))]
                    with m.If(end):
                        m.d.sync += turn.eq(0)
            with m.Elif(coding):
                m.d.comb += ended.eq(end)
                m.d.sync += [word.eq(Mux(end, 0, word + 1)), coding.eq(~end)]
            with m.Else():
                last = number == mapping.scale_beats - 1
                m.d.sync += [number.eq(Mux(last, 0, number + 1)), coding.eq(last)]
        with m.If(ended):
            m.d.sync += [left.eq(left - 1), more.eq(left != 0)]
        code = take & ~self.load.raw & coding
        self._scales(m, dequant, take & ~coding, code, number, word)
        flying = Signal(4)
        m.d.sync += flying.eq(flying + code - dequant.o.valid)
        return more, flying

    def _place(
        self, m: Module, name: str, groups: list[list[tuple[bool, bool, bool]]], step: Value, skipped: int
    ) -> tuple[Value, tuple[Value, Value]]:
        """Row of a thread's next word; whether it is the row's second word, and whether its only one."""
        mapping = self.mapping
        words = [flags for group in groups for flags in group]
        number, row = Signal(range(max(len(words), 2)), name=f"{name}_word"), Signal.like(self.rows.address)
        end, second, alone, close = (Signal(name=f"{name}_{what}") for what in ("end", "second", "alone", "close"))
        m.d.comb += [end.eq(number == len(words) - 1), close.eq(1)]
        if mapping.words_per_cycle > 1:
            with m.Switch(number):
                for at, flags in enumerate(words):
                    with m.Case(at):
                        m.d.comb += [
                            signal.eq(flag) for signal, flag in zip((second, alone, close), flags, strict=True)
                        ]
        with m.If(self.load.start):
            m.d.sync += [number.eq(0), row.eq(Mux(self.load.half, self.batch * mapping.sample_rows, 0) + skipped)]
        with m.Elif(step):
            taken = sum(close for *_, close in words)
            m.d.sync += [
                number.eq(Mux(end, 0, number + 1)),
                row.eq(row + Mux(end, mapping.sample_rows - taken + 1, close)),
            ]
        return row, (second, alone)

    def _assemble(self, m: Module, word: list[Signal], slot: Signal, beat: Value, values: int) -> None:
        """A beat's values at their place of the word; the first beat clears the rest."""
        for lane, into in enumerate(word):
            part = beat.word_select(lane % values, 128 // values)
            value = activation_of_byte(part) if values == BYTES_PER_BEAT else part[: ACTIVATION.width].as_signed()
            with m.If(slot == lane // values):
                m.d.sync += into.eq(value)
            with m.Elif(slot == 0):
                m.d.sync += into.eq(0)

    def _scales(self, m: Module, dequant: Nf4Dequant, store: Value, code: Value, row: Signal, word: Signal) -> None:
        """Four neighbouring scales for each word of codes, and which of them each lane takes."""
        mapping = self.mapping
        records = [word for words in mapping.batch_words for word in words]
        block = Signal(range(mapping.scales + 1))
        borders = [Signal(range(mapping.lanes + 1), name=f"border{at}") for at in range(SCALES - 1)]
        with m.Switch(word):
            for number, one in enumerate(records):
                ends = (*one.borders, *(mapping.lanes,) * SCALES)
                with m.Case(number):
                    m.d.comb += block.eq(one.block)
                    m.d.sync += [border.eq(end) for border, end in zip(borders, ends, strict=False)]
        turn, valid, codes = Signal(exact_log2(SCALES)), Signal(), Signal(128)
        m.d.sync += [turn.eq(block[:2]), valid.eq(code)]
        with m.If(code):
            m.d.sync += codes.eq(self.records.payload)
        found = []
        for number in range(SCALES):
            bank = memory.Memory(shape=unsigned(Q8_16.width - 1), depth=mapping.scale_beats + 1, init=[])
            m.submodules[f"scales{number}"] = bank
            into, port = bank.write_port(), bank.read_port()
            m.d.comb += [
                into.en.eq(store),
                into.addr.eq(row),
                into.data.eq(self.records.payload.word_select(number, 32)),
                port.addr.eq(block[2:] + (number < block[:2])),
            ]
            found.append(port.data)
        given = dequant.i.payload
        m.d.comb += dequant.i.valid.eq(valid)
        for at in range(SCALES):
            m.d.comb += given.scale[at].eq(Array(found[(at + by) % SCALES] for by in range(SCALES))[turn])
        for lane in range(mapping.lanes):
            m.d.comb += [
                given.code[lane].eq(codes.word_select(lane, 4)),
                given.select[lane].eq(sum((border <= lane for border in borders), Const(0, 1))),
            ]


def _rows(words: tuple[Word, ...], together: int) -> list[tuple[bool, bool, bool]]:
    """Of each word of a tensor, whether it is its row's second, its only, its last."""
    last = len(words) - 1
    odd = [together == 2 and at % 2 == 1 for at in range(len(words))]
    return [(second, at == last and not second, second or at == last or together == 1) for at, second in enumerate(odd)]
