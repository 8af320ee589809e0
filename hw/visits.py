"""Which samples come when: fetches the order, sees which are new, has them recorded, then loads the batch."""

from enum import Enum

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..golden.plan import BEAT, Plan
from ..golden.registers import Error
from .axi_bursts import command

WORD = 32
"""Bits of a word of marks, of which each says whether a record is in the cache."""


class Sink(Enum):
    """Who takes the beats that come."""

    NONE = 0
    ORDER = 1
    IMAGE = 2
    BATCH = 3


class Visits(wiring.Component):
    """One batch ahead of the tuner.

    Attributes
    ----------
    start, infer, raw, forget
        A job; without cache; records are in Q8.16. Forget all records, as after reset.
    samples ... batch_size
        The registers of those names.
    command, sink, beats
        To the reader; who takes what it gives; the order.
    image, record, image_room, image_done
        A new sample: its record's address; whether there is a place for it; it is there.
    recorded, written
        A record is complete; everything given to the writer has arrived.
    load, loading, free
        The loader; whether half a batch memory is free.
    given, half, count
        A batch is loaded.
    over, ended, ready
        All that was given is done; and so is the job; waits for the next one.
    label_write, label_address, label, missed
        Labels; a new sample.
    failed, error, error_address
        The order is wrong.
    """

    def __init__(self, plan: Plan, batch: int, places: int) -> None:
        self.plan, self.batch, self.places = plan, batch, places
        super().__init__(
            {
                **dict.fromkeys(("start", "infer", "raw", "forget"), In(1)),
                **dict.fromkeys(("samples", "order", "cache", "places_used", "samples_per_epoch", "epochs"), In(32)),
                "batch_size": In(range(batch + 1)),
                "command": Out(command(32)),
                "sink": Out(Sink),
                "beats": In(stream.Signature(128)),
                **dict.fromkeys(
                    ("image", "load", "given", "ready", "ended", "label_write", "missed", "failed"), Out(1)
                ),
                **dict.fromkeys(("image_room", "image_done", "recorded", "written", "loading", "free", "over"), In(1)),
                "record": Out(32),
                "half": Out(1),
                "count": Out(range(batch + 1)),
                "label_address": Out(range(2 * batch)),
                "label": Out(8),
                "error": Out(4),
                "error_address": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        sample_bytes = plan.sample_beats * BEAT
        record_bytes, raw_bytes = plan.record_beats * BEAT, plan.raw_beats * BEAT
        skipped = sum(len(words) for words in plan.record_words[: max(plan.first - 1, 0)])
        codes = plan.code_beats - skipped
        raw_beats = plan.raw_beats - skipped * plan.lanes // 4

        m.submodules.order = order = memory.Memory(shape=unsigned(128), depth=-(-self.batch // 4), init=[])
        store, fetch = order.write_port(), order.read_port()
        m.submodules.marks = marks = memory.Memory(shape=unsigned(WORD), depth=max(-(-self.places // WORD), 2), init=[])
        mark, look = marks.write_port(), marks.read_port()

        left, epochs = Signal(32), Signal(32)
        order_at, beats = Signal(32), Signal(range(-(-self.batch // 4) + 1))
        number, index, place = Signal.like(self.count), Signal(24), Signal(24)
        rows = -(-self.places // WORD)
        sweep = Signal(range(max(rows, 2)))
        pending = Signal(range(self.batch + 1))
        operand, factor, product, base = Signal(24), Signal(18), Signal(42), Signal(32)
        wait = Signal(2)
        last, miss, fresh = Signal(), Signal(), Signal()
        bad_index, bad_label = Signal(), Signal()
        m.d.sync += product.eq(operand * factor)
        m.d.sync += pending.eq(pending + self.image - self.recorded)
        entry = fetch.data.word_select(number[:2], 32)
        address = Signal(32)
        m.d.comb += [
            address.eq(base + product),
            last.eq(number == self.count - 1),
            fetch.addr.eq(number[2:]),
            look.addr.eq(index[5:]),
            store.addr.eq(beats),
            store.data.eq(self.beats.payload),
            store.en.eq(self.beats.valid),
            self.beats.ready.eq(1),
            mark.addr.eq(index[5:]),
            mark.data.eq(look.data | (Const(1, WORD) << index[:5])),
            self.label_address.eq(number + Mux(self.half, self.batch, 0)),
            self.record.eq(base),
        ]
        given = self.command.payload

        def multiply(by: int | Signal, what: Signal, origin: Signal, then: str) -> None:
            m.d.sync += [operand.eq(what), factor.eq(by), base.eq(origin), wait.eq(1)]
            m.next = then

        stride = Signal(18)
        m.d.comb += stride.eq(Mux(self.raw, raw_bytes, record_bytes))
        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [mark.en.eq(1), mark.addr.eq(sweep), mark.data.eq(0)]
                m.d.sync += sweep.eq(sweep + 1)
                with m.If(sweep == max(rows, 2) - 1):
                    m.next = "READY"
            with m.State("READY"):
                m.d.sync += [
                    left.eq(self.samples_per_epoch),
                    epochs.eq(self.epochs),
                    order_at.eq(self.order),
                    self.half.eq(0),
                    sweep.eq(0),
                ]
                m.d.comb += self.ready.eq(1)
                with m.If(self.forget):
                    m.next = "CLEAR"
                with m.Elif(self.start):
                    m.next = "BATCH"
            with m.State("BATCH"):
                m.d.sync += [
                    self.count.eq(Mux(left < self.batch_size, left, self.batch_size)),
                    beats.eq(0),
                    number.eq(0),
                ]
                m.d.sync += fresh.eq(0)
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += [
                    self.command.valid.eq(1),
                    given.address.eq(order_at),
                    given.beats.eq((self.count + 3) >> 2),
                ]
                with m.If(self.command.ready):
                    m.d.sync += self.sink.eq(Sink.ORDER)
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(self.beats.valid):
                m.d.sync += [beats.eq(beats + 1), order_at.eq(order_at + BEAT)]
                with m.If(beats == ((self.count + 3) >> 2) - 1):
                    m.next = "SCAN"
            # is it new?
            with m.State("SCAN"):
                m.next = "ENTRY"
            with m.State("ENTRY"):
                m.d.sync += [index.eq(entry[:24]), self.label.eq(entry[24:])]
                m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += place.eq(Mux(self.infer, number, index))
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [
                    bad_index.eq(~self.infer & (index >= self.places_used)),
                    bad_label.eq(~self.infer & (self.label >= plan.network.classes)),
                    miss.eq(self.infer | ~look.data.bit_select(index[:5], 1)),
                ]
                m.next = "TEST"
            with m.State("TEST"):
                with m.If(bad_index):
                    m.d.sync += [self.error.eq(Error.BAD_INDEX), self.error_address.eq(index)]
                    m.next = "FAILED"
                with m.Elif(bad_label):
                    m.d.sync += [self.error.eq(Error.BAD_LABEL), self.error_address.eq(self.label)]
                    m.next = "FAILED"
                with m.Elif(miss):
                    m.d.comb += [self.missed.eq(1), mark.en.eq(~self.infer)]
                    multiply(sample_bytes, index, self.samples, "NEW")
                with m.Else():
                    m.next = "NEXT"
            with m.State("NEW"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [given.address.eq(address), given.beats.eq(plan.sample_beats)]
                m.d.comb += self.command.valid.eq(self.image_room)
                with m.If(self.command.valid & self.command.ready):
                    m.d.sync += self.sink.eq(Sink.IMAGE)
                    multiply(stride, place, self.cache, "RECORD")
            with m.State("RECORD"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.sync += base.eq(address)
                    m.next = "IMAGE"
            with m.State("IMAGE"):
                m.d.comb += self.image.eq(1)
                m.d.sync += fresh.eq(1)
                m.next = "ARRIVE"
            with m.State("ARRIVE"), m.If(self.image_done):
                m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += number.eq(number + 1)
                m.next = "SCAN"
                with m.If(last):
                    m.d.sync += number.eq(0)
                    m.next = "SETTLE"
            # what was new is in the cache before it is read
            with m.State("SETTLE"), m.If((pending == 0) & (self.written | ~fresh) & self.free):
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.load.eq(1)
                m.d.sync += self.sink.eq(Sink.BATCH)
                m.next = "VISIT"
            with m.State("VISIT"):
                m.next = "WHICH"
            with m.State("WHICH"):
                m.d.sync += [index.eq(entry[:24]), place.eq(Mux(self.infer, number, entry[:24]))]
                m.d.sync += self.label.eq(entry[24:])
                m.next = "SAMPLE" if plan.first == 0 else "PLACE"
            if plan.first == 0:
                with m.State("SAMPLE"):
                    multiply(sample_bytes, index, self.samples, "SAMPLE_WAIT")
                with m.State("SAMPLE_WAIT"):
                    m.d.sync += wait.eq(wait - 1)
                    with m.If(wait == 0):
                        m.next = "SAMPLE_READ"
                with m.State("SAMPLE_READ"):
                    m.d.comb += [given.address.eq(address), given.beats.eq(plan.sample_beats), self.command.valid.eq(1)]
                    with m.If(self.command.ready):
                        m.next = "PLACE"
            with m.State("PLACE"):
                # only now is this half's last batch done with its labels
                m.d.comb += self.label_write.eq(1)
                multiply(stride, place, self.cache, "PLACE_WAIT")
            with m.State("PLACE_WAIT"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.sync += base.eq(address)
                    m.next = "SCALES"
                    with m.If(self.raw):
                        m.next = "CODES"
            with m.State("SCALES"):
                m.d.comb += [given.address.eq(base + plan.code_beats * BEAT), given.beats.eq(plan.scale_beats)]
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.next = "CODES"
            with m.State("CODES"):
                begin = Mux(self.raw, skipped * plan.lanes * 4, skipped * BEAT)
                m.d.comb += [given.address.eq(base + begin), given.beats.eq(Mux(self.raw, raw_beats, codes))]
                m.d.comb += self.command.valid.eq(1)
                with m.If(self.command.ready):
                    m.d.sync += number.eq(number + 1)
                    m.next = "VISIT"
                    with m.If(last):
                        m.next = "LOADED"
            with m.State("LOADED"), m.If(~self.loading):
                m.d.comb += self.given.eq(1)
                m.d.sync += [self.half.eq(~self.half), left.eq(left - self.count)]
                m.next = "AFTER"
            with m.State("AFTER"):
                m.next = "BATCH"
                with m.If(left == 0):
                    m.d.sync += [left.eq(self.samples_per_epoch), epochs.eq(epochs - 1)]
                    with m.If(epochs == 1):
                        m.next = "ENDED"
            with m.State("ENDED"), m.If(self.over):
                m.d.comb += self.ended.eq(1)
                m.next = "READY"
            with m.State("FAILED"):
                m.d.comb += self.failed.eq(1)
        return m
