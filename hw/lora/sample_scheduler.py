"""Which samples come when: fetches the order, sees which are new, has them recorded, and hands over the batch."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.cores.instantft_registers import Error
from ...golden.lora.mapping import AdapterMapping
from ..axi.bursts import command
from ..primitives.address_generator import AddressGenerator

WORD = 32
"""Bits of a word of marks, of which each says whether a record is in the cache."""
ENTRY = data.StructLayout({"index": 24, "label": 8})
COUNTED = unsigned(10)
"""New samples, counted modulo: more than two batches may have on their way."""


class Visits(wiring.Component):
    """A batch ahead of `Batches`.

    Parameters
    ----------
    mapping : AdapterMapping
    batch, places : int
        Most samples of a batch, of the cache.
    shared : bool
        An inference writes where the cache is, which then is empty.

    Attributes
    ----------
    start, infer, raw, forget
        A job; without cache; records are in Q8.16. Forget all records, as after reset.
    samples ... batch_size
        The registers of those names.
    order_read, order_beats, image_read
        Commands and beats of the order; the command of a new sample.
    image, record, image_room, image_done
        A new sample: its record's address; whether there is a place for it; it is there.
    next, taken, count, goal
        A batch, which is complete once `goal` new samples have been recorded.
    number, entry, side
        An entry of the batch that was taken last, a cycle later; which of two turns that batch has.
    over, ended, ready
        All that was taken is done; and so is the job; waits for the next one.
    missed, failed, error, error_address
        A new sample; the order is wrong.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, places: int, shared: bool = False) -> None:
        self.mapping, self.batch, self.places, self.shared = mapping, batch, places, shared
        super().__init__(
            {
                **dict.fromkeys(("start", "infer", "raw", "forget"), In(1)),
                **dict.fromkeys(("samples", "order", "cache", "places_used", "samples_per_epoch", "epochs"), In(32)),
                "batch_size": In(range(batch + 1)),
                "order_read": Out(command(32)),
                "order_beats": In(stream.Signature(128)),
                "image_read": Out(command(32)),
                **dict.fromkeys(("image", "next", "ready", "ended", "missed", "failed"), Out(1)),
                **dict.fromkeys(("image_room", "image_done", "taken", "over"), In(1)),
                "record": Out(32),
                "count": Out(range(batch + 1)),
                "goal": Out(COUNTED),
                "number": In(range(batch + 1)),
                "entry": Out(ENTRY),
                "side": Out(1),
                "error": Out(4),
                "error_address": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        half_rows = 1 << (-(-self.batch // 4) - 1).bit_length()
        # two batches: one is looked through while the other is loaded
        m.submodules.order = order = memory.Memory(shape=data.ArrayLayout(ENTRY, 4), depth=2 * half_rows, init=[])
        store, fetch, shown = order.write_port(), order.read_port(), order.read_port()
        m.submodules.marks = marks = memory.Memory(shape=unsigned(WORD), depth=max(-(-self.places // WORD), 2), init=[])
        mark, look = marks.write_port(), marks.read_port()
        m.submodules.where = where = AddressGenerator()

        left, epochs = Signal(32), Signal(32)
        order_at, beats = Signal(32), Signal(range(half_rows + 1))
        number, half, last = Signal.like(self.count), Signal(), Signal()
        index, label, place = Signal(24), Signal(8), Signal(24)
        rows = max(-(-self.places // WORD), 2)
        sweep = Signal(range(rows))
        miss, bad_index, bad_label = Signal(), Signal(), Signal()
        beats_needed = (self.count + 3) >> 2
        lane = Signal(2)
        m.d.sync += lane.eq(self.number)
        bits = len(store.addr) - 1
        m.d.comb += [
            last.eq(number == self.count - 1),
            fetch.addr.eq(Cat((number >> 2)[:bits], half)),
            shown.addr.eq(Cat((self.number >> 2)[:bits], self.side)),
            self.side.eq(~half),
            self.entry.eq(shown.data[lane]),
            look.addr.eq(index[5:]),
            store.addr.eq(Cat(beats[:bits], half)),
            store.data.eq(self.order_beats.payload),
            store.en.eq(self.order_beats.valid),
            self.order_beats.ready.eq(1),
            mark.addr.eq(index[5:]),
            mark.data.eq(look.data | (Const(1, WORD) << index[:5])),
            self.record.eq(where.address),
            self.order_read.payload.address.eq(order_at),
            self.order_read.payload.beats.eq(beats_needed),
            self.image_read.payload.address.eq(where.address),
            self.image_read.payload.beats.eq(mapping.forward.sample_beats),
        ]
        record_bytes = Mux(self.raw, mapping.raw_beats * BEAT, mapping.record_beats * BEAT)
        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [mark.en.eq(1), mark.addr.eq(sweep), mark.data.eq(0)]
                m.d.sync += sweep.eq(sweep + 1)
                with m.If(sweep == rows - 1):
                    m.next = "READY"
            with m.State("READY"):
                m.d.sync += [
                    left.eq(self.samples_per_epoch),
                    epochs.eq(self.epochs),
                    order_at.eq(self.order),
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
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.order_read.valid.eq(1)
                with m.If(self.order_read.ready):
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(self.order_beats.valid):
                m.d.sync += [beats.eq(beats + 1), order_at.eq(order_at + BEAT)]
                with m.If(beats == beats_needed - 1):
                    m.next = "SCAN"
            # is it new?
            with m.State("SCAN"):
                m.next = "ENTRY"
            with m.State("ENTRY"):
                m.d.sync += Cat(index, label).eq(fetch.data[number[:2]])
                m.next = "LOOK"
            with m.State("LOOK"):
                # without a cache each of two batches has places of its own
                m.d.sync += place.eq(Mux(self.infer, number + Mux(half, self.batch, 0), index))
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += [
                    bad_index.eq(~self.infer & (index >= self.places_used)),
                    bad_label.eq(~self.infer & (label >= mapping.classes)),
                    miss.eq(self.infer | ~look.data.bit_select(index[:5], 1)),
                ]
                m.next = "TEST"
            with m.State("TEST"):
                m.d.comb += [where.index.eq(index), where.stride.eq(mapping.forward.sample_beats * BEAT)]
                m.d.comb += where.base.eq(self.samples)
                with m.If(bad_index):
                    m.d.sync += [self.error.eq(Error.BAD_INDEX), self.error_address.eq(index)]
                    m.next = "FAILED"
                with m.Elif(bad_label):
                    m.d.sync += [self.error.eq(Error.BAD_LABEL), self.error_address.eq(label)]
                    m.next = "FAILED"
                with m.Elif(miss):
                    m.d.comb += [self.missed.eq(1), mark.en.eq(~self.infer), where.start.eq(1)]
                    m.next = "NEW"
                with m.Else():
                    m.next = "NEXT"
            with m.State("NEW"), m.If(where.done & self.image_room):
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [where.index.eq(place), where.stride.eq(record_bytes), where.base.eq(self.cache)]
                m.d.comb += self.image_read.valid.eq(1)
                with m.If(self.image_read.ready):
                    m.d.comb += where.start.eq(1)
                    m.next = "RECORD"
            with m.State("RECORD"), m.If(where.done):
                m.next = "IMAGE"
            with m.State("IMAGE"):
                m.d.comb += self.image.eq(1)
                m.d.sync += self.goal.eq(self.goal + 1)
                m.next = "ARRIVE"
            with m.State("ARRIVE"), m.If(self.image_done):
                m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += number.eq(number + 1)
                m.next = "SCAN"
                with m.If(last):
                    m.d.sync += [left.eq(left - self.count), number.eq(0)]
                    m.next = "HAND"
            with m.State("HAND"):
                m.d.comb += self.next.eq(1)
                with m.If(self.taken):
                    m.d.sync += half.eq(~half)
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
                if self.shared:
                    with m.If(self.infer):
                        m.next = "CLEAR"
            with m.State("FAILED"):
                m.d.comb += self.failed.eq(1)
        return m
