"""Batch unpacker: rows of Q8.16 for the batch memory, from beats of samples and records."""

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.lora.mapping import SCALES, AdapterMapping, Word
from ....golden.lora.memories import read_scale_memory
from ....golden.nf4.nf4_dequant import Nf4DequantSpec
from ...nf4.nf4_dequant import Nf4Dequant
from ...nn.interfaces import ACTIVATION, BEAT_BITS, BEATS
from ...nn.sample_writer import BYTES_PER_BEAT, WORDS_PER_BEAT, activation_of_byte
from ...primitives.ram import ram
from ...primitives.registers import data_register
from ..engine_interfaces import BatchWrite
from ..job_interfaces import BatchLoad

_FURTHER = ("second", "third", "fourth")
"""Names of a row's words after the first."""
_FEWER = ("alone", "two", "three")
"""Names of flags that a row's last word leaves the second, third or fourth position empty."""


class _Scales(NamedTuple):
    """Writes of scales to their memory.

    Parameters
    ----------
    store : Value
        Write enable.
    beat, row : Value
        Beat of scales, and its row.
    half : Value, optional
        With `loads_apart`: half of the memory with the scales of the incoming codes.
    """

    store: Value
    beat: Value
    row: Value
    half: Value | None = None


class BatchUnpacker(wiring.Component):
    """Writes a batch's samples and records, as values in Q8.16, into a half of the batch memory.

    Samples and records may come from two memories; each has a thread. NF4 codes are dequantised, a word a cycle.
    Samples and raw records are assembled in a register of a word. With raw records the threads alternate: a sample,
    then its record. An assembled word waits while a dequantised word is written.

    With `AdapterMapping.loads_apart` both words are written in a cycle, if they need different positions of their rows.
    Scales then have a thread, up to two records ahead.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.

    Attributes
    ----------
    load : In, `BatchLoad`
    samples : In stream of 128-bit beats
        Samples of the batch; unused if no adapter reads the sample.
    records : In stream of 128-bit beats
        Records of the batch; of an NF4 record first the scales, then the codes.
    scales : In stream of 128-bit beats, with `loads_apart`
        Scales of all records of all batches, in place of those in `records`.
    rows : Out, `BatchWrite`
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        self.mapping, self.batch, self._apart = mapping, batch, mapping.loads_apart
        super().__init__(
            {
                "load": In(BatchLoad(batch)),
                "samples": In(BEATS),
                "records": In(BEATS),
                **({"scales": In(BEATS)} if mapping.loads_apart else {}),
                "rows": Out(BatchWrite(mapping, batch)),
            }
        )
        # word assembled from beats; flags: complete, of a record
        self._assembled = [
            Signal(ACTIVATION, name=f"assembled{lane}", reset_less=True) for lane in range(mapping.lanes)
        ]
        self._full, self._from_record = Signal(), Signal()
        # the word may be replaced in this cycle; with raw records, the record's turn
        self._room, self._record_turn = Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        m.submodules.dequant = dequant = Nf4Dequant(Nf4DequantSpec(lanes=mapping.lanes, scales=SCALES))
        m.d.comb += dequant.o.ready.eq(1)
        decoded, full = dequant.o.valid, self._full
        written = Signal()
        with m.If(written):
            m.d.sync += full.eq(0)
        with m.If(self.load.start):
            m.d.sync += self._record_turn.eq(0)

        sampling = self._samples(m) if mapping.takes_sample else Const(0, 1)
        recording, in_flight = self._records(m, platform, dequant)
        at_record, flags = self._row(
            m, "record", self._record_places(), decoded | (written & self._from_record), mapping.record_row
        )
        at_sample, sample = at_record, flags
        if mapping.takes_sample:
            sample_places = _places(mapping.sample_words, mapping.words_per_cycle)
            at_sample, sample = self._row(m, "sample", sample_places, written & ~self._from_record, 0)
        m.d.comb += self.load.busy.eq(sampling | recording | in_flight.any() | full | self.rows.enable.any())
        write = self._write_apart if self._apart else self._write
        write(m, dequant, written, (at_record, flags), (at_sample, sample))
        return m

    def _write(
        self,
        m: Module,
        dequant: Nf4Dequant,
        written: Signal,
        record: tuple[Value, list[Value]],
        sample: tuple[Value, list[Value]],
    ) -> None:
        """Write a decoded word, or else an assembled word, with the row and flags of the threads' next words."""
        mapping, decoded, full = self.mapping, dequant.o.valid, self._full
        # an assembled word waits while decoded words are written
        m.d.comb += [self._room.eq(~full | ~decoded), written.eq(full & ~decoded)]
        row, flags = record
        if mapping.takes_sample:
            is_record, (at_sample, of_sample) = decoded | self._from_record, sample
            row = Mux(is_record, row, at_sample)
            flags = [Mux(is_record, of_record, other) for of_record, other in zip(flags, of_sample, strict=True)]
        further = mapping.words_per_cycle - 1
        places, empty = flags[:further], flags[further:]
        m.d.sync += self.rows.enable.eq(0)
        address = data_register(m, self.rows.address, "row_address")
        row_words = data_register(m, self.rows.words, "row_words")
        with m.If(decoded | full):
            m.d.sync += address.eq(row)
            words = [address | none for address, none in zip(places, empty, strict=True)]
            m.d.sync += self.rows.enable.eq(Cat(~reduce(or_, places), *words) if further else 1)
            for lane in range(mapping.lanes):
                value = Mux(decoded, dequant.o.payload.value[lane], self._assembled[lane])
                m.d.sync += row_words[lane].eq(value)
                for number, none in enumerate(empty, 1):
                    m.d.sync += row_words[number * mapping.lanes + lane].eq(Mux(none, 0, value))

    def _write_apart(
        self,
        m: Module,
        dequant: Nf4Dequant,
        written: Signal,
        record: tuple[Value, list[Value]],
        sample: tuple[Value, list[Value]],
    ) -> None:
        """Write a decoded word, and an assembled word to free positions, in a cycle or more; see `_write`."""
        mapping, decoded, full, from_record = self.mapping, dequant.o.valid, self._full, self._from_record
        (at_record, of_record), (at_sample, of_sample) = record, sample
        words = mapping.words_per_cycle
        # written positions of the assembled word; only words of samples share a cycle with decoded words
        done = Signal(words)
        both = [recorded & other for recorded, other in zip(of_record[:words], of_sample[:words], strict=True)]
        m.d.comb += [written.eq(full & ~(decoded & (Cat(both) & ~done).any())), self._room.eq(~full | written)]
        address = data_register(m, self.rows.address, "row_address")
        row_words = data_register(m, self.rows.words, "row_words")
        for number in range(words):
            is_decoded, recorded = Signal(name=f"decoded{number}"), Signal(name=f"recorded{number}")
            m.d.comb += [is_decoded.eq(decoded & of_record[number]), recorded.eq(is_decoded | from_record)]
            assembled = full & ~done[number] & Mux(from_record, of_record[number], of_sample[number])
            m.d.sync += [
                done[number].eq(~written & (done[number] | (assembled & ~is_decoded))),
                self.rows.enable[number].eq(is_decoded | assembled),
                address[number].eq(Mux(recorded, at_record, at_sample)),
            ]
            for lane in range(mapping.lanes):
                value = Mux(is_decoded, dequant.o.payload.value[lane], self._assembled[lane])
                if number:
                    place = words + number - 1
                    value = Mux(Mux(recorded, of_record[place], of_sample[place]), 0, value)
                m.d.sync += row_words[number * mapping.lanes + lane].eq(value)

    def _record_places(self) -> list[tuple[int, bool]]:
        """Positions of a record's words in their rows, tensor by tensor."""
        words = self.mapping.words_per_cycle
        return [place for tensor in self.mapping.batch_words for place in _places(tensor, words)]

    def _samples(self, m: Module) -> Value:
        """Assemble the words of samples; return whether more beats follow."""
        load, forward = self.load, self.mapping.forward
        per_beat = BYTES_PER_BEAT if forward.byte_inputs else WORDS_PER_BEAT
        per_word = self.mapping.lanes // per_beat
        remaining = Signal.like(load.count, name="samples_left", reset_less=True)
        beat = Signal(range(forward.sample_beats), reset_less=True)
        slot = Signal(range(max(per_word, 2)), reset_less=True)
        more, take, end = Signal(), Signal(), Signal()
        m.d.comb += [
            self.samples.ready.eq(more & self._room & ~(load.raw & self._record_turn)),
            take.eq(self.samples.valid & self.samples.ready),
            end.eq(beat == forward.sample_beats - 1),
        ]
        with m.If(load.start):
            m.d.sync += [remaining.eq(load.count - 1), more.eq(1), beat.eq(0), slot.eq(0)]
        with m.If(take):
            self._assemble(m, slot, self.samples.payload, per_beat)
            close = end | (slot == per_word - 1)
            m.d.sync += [slot.eq(Mux(close, 0, slot + 1)), beat.eq(Mux(end, 0, beat + 1))]
            m.d.sync += [self._full.eq(close), self._from_record.eq(0)]
            with m.If(end):
                m.d.sync += [self._record_turn.eq(1), remaining.eq(remaining - 1), more.eq(remaining != 0)]
        return more

    def _records(self, m: Module, platform: object, dequant: Nf4Dequant) -> tuple[Value, Signal]:
        """Decode or assemble the words of records; return whether more beats follow, and words in the dequantiser."""
        load, mapping = self.load, self.mapping
        words = sum(map(len, mapping.batch_words))
        slots = mapping.lanes // WORDS_PER_BEAT
        remaining = Signal.like(load.count, name="records_left", reset_less=True)
        slot, word = Signal(range(slots), reset_less=True), Signal(range(words + 1), reset_less=True)
        number = Signal(range(max(mapping.scale_beats, 2)), reset_less=True)
        more, take, end, coding = Signal(), Signal(), Signal(), Signal()
        ended = Signal()
        after_sample = self._record_turn if mapping.takes_sample else Const(1, 1)
        scales, ready = _Scales(take & ~coding, self.records.payload, number), ~load.raw | (self._room & after_sample)
        if mapping.loads_apart:
            scales, coded = self._scales_ahead(m, ended & ~load.raw)
            ready &= load.raw | coded
        m.d.comb += [
            self.records.ready.eq(more & ready),
            take.eq(self.records.valid & self.records.ready),
            end.eq(word == words - 1),
        ]
        with m.If(load.start):
            m.d.sync += [remaining.eq(load.count - 1), more.eq(1), number.eq(0), word.eq(0), slot.eq(0)]
            # a separate stream of scales does not precede the codes
            m.d.sync += coding.eq(mapping.loads_apart)
        with m.If(take):
            with m.If(load.raw):
                self._assemble(m, slot, self.records.payload, WORDS_PER_BEAT)
                close = slot == slots - 1
                m.d.sync += [slot.eq(slot + 1), self._full.eq(close), self._from_record.eq(1)]
                with m.If(close):
                    m.d.comb += ended.eq(end)
                    m.d.sync += [slot.eq(0), word.eq(Mux(end, 0, word + 1))]
                    with m.If(end):
                        m.d.sync += self._record_turn.eq(0)
            with m.Elif(coding):
                m.d.comb += ended.eq(end)
                m.d.sync += [word.eq(Mux(end, 0, word + 1)), coding.eq(~end | mapping.loads_apart)]
            with m.Else():
                last = number == mapping.scale_beats - 1
                m.d.sync += [number.eq(Mux(last, 0, number + 1)), coding.eq(last)]
        with m.If(ended):
            m.d.sync += [remaining.eq(remaining - 1), more.eq(remaining != 0)]
        code = take & ~load.raw & coding
        banks = [ram(platform, read_scale_memory(self.mapping)) for _ in range(SCALES)]
        self._scales(m, banks, dequant, scales, code, word)
        in_flight = Signal(range(Nf4DequantSpec(lanes=mapping.lanes, scales=SCALES).latency + 2))
        m.d.sync += in_flight.eq(in_flight + code - dequant.o.valid)
        return more, in_flight

    def _scales_ahead(self, m: Module, used: Value) -> tuple[_Scales, Value]:
        """Store the scales of two records, each in a half of the memory; return whether the next record's are complete.

        `used` is high when the last codes of a record are taken.
        """
        last_beat, beats = self.mapping.scale_beats - 1, self.scales
        number = Signal(range(self.mapping.scale_beats + 1), name="scale_beat")
        held, into, of = Signal(range(3), name="scales_held"), Signal(name="scales_into"), Signal(name="scales_of")
        store, complete = beats.valid & beats.ready, Signal(name="scales_complete")
        m.d.comb += [beats.ready.eq(~held[1]), complete.eq(store & (number == last_beat))]
        m.d.sync += [held.eq(held + complete - used), into.eq(into ^ complete), of.eq(of ^ used)]
        with m.If(store):
            m.d.sync += number.eq(Mux(complete, 0, number + 1))
        return _Scales(store, beats.payload, Cat(number, into), of), held != 0

    def _row(
        self, m: Module, name: str, words: list[tuple[int, bool]], step: Value, skipped: int
    ) -> tuple[Value, list[Value]]:
        """Row of a thread's next word, with flags: the word's position after the first, and empty positions.

        With `loads_apart` the flags are registers: the written positions, from the first on, and empty positions.

        Parameters
        ----------
        name : str
            Prefix of signals.
        words : list of (place, last)
            Position in its row of each of the thread's words of a sample, and a flag of the row's last word.
        step : Value
            The word is written.
        skipped : int
            Rows of a sample before the thread's rows.
        """
        mapping, load = self.mapping, self.load
        number = Signal(range(max(len(words), 2)), name=f"{name}_word", reset_less=True)
        row = Signal(range(2 * self.batch * mapping.sample_rows), name=f"{name}_row", reset_less=True)
        further = mapping.words_per_cycle - 1
        # named after positions of the row
        names = ("end", *["first"][: self._apart], *_FURTHER[:further], *_FEWER[:further], "close")
        end, *flags, close = (Signal(name=f"{name}_{what}") for what in names)
        m.d.comb += end.eq(number == len(words) - 1)
        if self._apart:
            following = Signal.like(number, name=f"{name}_following")
            m.d.comb += following.eq(Mux(load.start | end, 0, number + 1))
            with m.If(load.start | step):
                self._flags(m, words, following, m.d.sync, (*flags, close))
        else:
            m.d.comb += close.eq(1)
            if further:
                self._flags(m, words, number, m.d.comb, (*flags, close))
        with m.If(load.start):
            m.d.sync += [number.eq(0), row.eq(Mux(load.half, self.batch * mapping.sample_rows, 0) + skipped)]
        with m.Elif(step):
            filled = sum(last for _, last in words)
            m.d.sync += number.eq(Mux(end, 0, number + 1))
            m.d.sync += row.eq(row + Mux(end, mapping.sample_rows - filled + 1, close))
        return row, list(flags)

    def _flags(
        self, m: Module, words: list[tuple[int, bool]], number: Value, domain: Any, flags: tuple[Signal, ...]
    ) -> None:
        """Set the flags of word `number`, see `_row`; the last flag marks the row's last word."""
        further = range(1, self.mapping.words_per_cycle)
        with m.Switch(number):
            for word, (place, last) in enumerate(words):
                hits, empty = [place == index for index in further], [last and place < index for index in further]
                if self._apart:
                    hits = [place == 0, *(hit or none for hit, none in zip(hits, empty, strict=True))]
                with m.Case(word):
                    for flag, value in zip(flags, (*hits, *empty, last), strict=True):
                        domain += flag.eq(value)

    def _assemble(self, m: Module, slot: Signal, beat: Value, values: int) -> None:
        """Store a beat's values in the assembled word; the first beat clears the rest."""
        for lane, into in enumerate(self._assembled):
            part = beat.word_select(lane % values, BEAT_BITS // values)
            value = activation_of_byte(part) if values == BYTES_PER_BEAT else part[: ACTIVATION.width].as_signed()
            with m.If(slot == lane // values):
                m.d.sync += into.eq(value)
            with m.Elif(slot == 0):
                m.d.sync += into.eq(0)

    def _scales(
        self,
        m: Module,
        banks: list[memory.Memory],
        dequant: Nf4Dequant,
        read: _Scales,
        code: Value,
        word: Signal,
    ) -> None:
        """Connect four consecutive scales to each word of codes, and the number of a scale to each lane."""
        mapping = self.mapping
        records = [word for words in mapping.batch_words for word in words]
        block = Signal(range(mapping.scales + 1))
        borders = [
            Signal(range(mapping.lanes + 1), name=f"border{scale}", reset_less=True) for scale in range(SCALES - 1)
        ]
        with m.Switch(word):
            for number, record_word in enumerate(records):
                ends = (*record_word.borders, *(mapping.lanes,) * SCALES)
                with m.Case(number):
                    m.d.comb += block.eq(record_word.block)
                    m.d.sync += [border.eq(end) for border, end in zip(borders, ends, strict=False)]
        turn, valid = Signal(exact_log2(SCALES), reset_less=True), Signal()
        codes = Signal(BEAT_BITS, reset_less=True)
        m.d.sync += [turn.eq(block[:2]), valid.eq(code)]
        with m.If(code):
            m.d.sync += codes.eq(self.records.payload)
        scales = []
        for number, bank in enumerate(banks):
            # the last bank never has a block of the next row
            following = number < block[:2] if number < SCALES - 1 else Const(0, 1)
            m.submodules[f"scales{number}"] = bank
            into, port = bank.write_port(), bank.read_port()
            row = block[2:] + following
            if read.half is not None:
                row = Cat(row[: len(port.addr) - 1], read.half)
            m.d.comb += [
                into.en.eq(read.store),
                into.addr.eq(read.row),
                into.data.eq(read.beat.word_select(number, 32)),
                port.addr.eq(row),
            ]
            scales.append(port.data)
        dequant_word = dequant.i.payload
        m.d.comb += dequant.i.valid.eq(valid)
        for scale in range(SCALES):
            m.d.comb += dequant_word.scale[scale].eq(Array(scales[(scale + by) % SCALES] for by in range(SCALES))[turn])
        for lane in range(mapping.lanes):
            m.d.comb += [
                dequant_word.code[lane].eq(codes.word_select(lane, 4)),
                dequant_word.select[lane].eq(sum((border <= lane for border in borders), Const(0, 1))),
            ]


def _places(words: tuple[Word, ...], words_per_cycle: int) -> list[tuple[int, bool]]:
    """Position in its row of each word of a tensor, and a flag of the row's last word."""
    places = [number % words_per_cycle for number in range(len(words))]
    return [(place, place == words_per_cycle - 1 or number == len(words) - 1) for number, place in enumerate(places)]
