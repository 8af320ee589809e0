"""RTL of `adapter`: the core's tuner and head with memories of their own, and streams around them."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..golden.adapter import AdapterSpec
from ..golden.plan import Plan
from .delay import delayed
from .head import LOGIT, Head
from .mac import PARAMETER, MacArray
from .outputs import VALUE
from .ports import elements, members
from .tuner import Tuner
from .updater import RATE, VALUES

BEAT = data.ArrayLayout(PARAMETER, VALUES)


class Adapter(wiring.Component):
    """A label, then its sample, a word a cycle; after the batch's last one it is tuned.

    Logits come while it is, updated parameters at its end; all of it waits while a beat is on offer and not taken.
    Parameters are taken between batches, a whole image at a time; before the first since reset nothing else is taken.
    """

    def __init__(self, spec: AdapterSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        plan = spec.plan
        inner = Tuning(plan, spec.batch, spec.words)
        move = Signal()
        m.submodules.inner = EnableInserter(move)(inner)
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.o.valid.eq(inner.updated),
            *(
                into.eq(value)
                for into, value in zip(
                    elements(self.o.payload.parameter, spec.streams()["o"].fields[0]), inner.beat, strict=True
                )
            ),
            self.logits.valid.eq(inner.logits.valid),
            self.logits.payload.logit.eq(inner.logits.payload.logit),
            self.logits.payload.last.eq(inner.logits.payload.last),
            inner.logits.ready.eq(self.logits.ready),
        ]
        count, samples = Signal(range(spec.batch + 1)), Signal(range(spec.batch + 1))
        closed, loaded, busy = Signal(), Signal(), Signal()
        beat, last_beat = Signal(range(plan.adapter_beats)), Signal()
        address, word, last_word = Signal(range(spec.batch * spec.words)), Signal(range(spec.words)), Signal()
        fresh, wanted = Signal(init=1), Signal()
        label, given, load = self.label.payload, self.i.payload, self.load.payload
        m.d.comb += [
            self.load.ready.eq(fresh),
            self.label.ready.eq(loaded & ~closed & ~(fresh & self.load.valid)),
            self.i.ready.eq(wanted),
            inner.label_write.eq(self.label.valid & self.label.ready),
            inner.label_address.eq(count),
            inner.label.eq(label.label),
            inner.word_write.eq(self.i.valid & self.i.ready),
            inner.address.eq(address),
            inner.word.eq(given.x),
            inner.count.eq(count),
        ]
        # whatever enters does so while the tuner is idle: nothing is on offer, nothing waits
        taken = self.load.valid & self.load.ready
        m.d.sync += [inner.load.eq(taken), inner.place.eq(beat), inner.load_beat.eq(load.parameter)]
        with m.If(taken):
            m.d.sync += [
                beat.eq(Mux(last_beat, 0, beat + 1)),
                last_beat.eq(beat == plan.adapter_beats - 2),
                loaded.eq(last_beat),
            ]
        with m.If(inner.label_write):
            end = label.last | (count == spec.batch - 1)
            m.d.sync += [count.eq(count + 1), closed.eq(end), inner.rate.eq(label.rate), fresh.eq(0)]
        with m.If(inner.word_write):
            m.d.sync += [address.eq(address + 1), word.eq(Mux(last_word, 0, word + 1))]
            m.d.sync += last_word.eq(word == spec.words - 2)
            with m.If(last_word):
                m.d.sync += samples.eq(samples + 1)
        # a word is wanted once its sample's label is there; looked up for a cycle between samples
        ended = inner.word_write & last_word
        m.d.sync += wanted.eq(~ended & (samples != count))
        begin = closed & (samples == count) & ~busy
        m.d.sync += inner.start.eq(begin)
        with m.If(begin):
            m.d.sync += busy.eq(1)
        with m.If(inner.done & move):
            m.d.sync += [busy.eq(0), closed.eq(0), count.eq(0), samples.eq(0), address.eq(0), fresh.eq(1)]
        return m


class Tuning(wiring.Component):
    """The tuner, the head, the multipliers and their memories.

    Attributes
    ----------
    load, place, load_beat
        A beat of the adapters' image.
    label_write, label_address, label, word_write, address, word
        Of a batch.
    start, count, rate, done
        Tunes on it.
    updated, beat
        A beat of the image, in order.
    logits
        Of its samples.
    """

    def __init__(self, plan: Plan, batch: int, words: int) -> None:
        self.plan, self.batch, self.words = plan, batch, words
        self.array = MacArray(plan.lanes, plan.columns, plan.tiles * plan.lanes, batch)
        super().__init__(
            {
                **dict.fromkeys(("load", "label_write", "word_write", "start"), In(1)),
                "place": In(range(plan.adapter_beats)),
                "load_beat": In(BEAT),
                "label_address": In(range(batch + 1)),
                "label": In(8),
                "address": In(range(batch * words)),
                "word": In(data.ArrayLayout(VALUE, plan.lanes)),
                "count": In(range(batch + 1)),
                "rate": In(RATE),
                **dict.fromkeys(("done", "updated"), Out(1)),
                "beat": Out(BEAT),
                "logits": Out(LOGIT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, array = self.plan, self.array
        m.submodules.array = array
        m.submodules.tuner = tuner = Tuner(plan, self.batch, array.within_width)
        m.submodules.head = head = Head(plan, self.batch)
        m.d.comb += [
            head.start.eq(self.start),
            head.label_write.eq(self.label_write),
            head.label_address.eq(self.label_address),
            head.label.eq(self.label),
            head.show.eq(1),
            head.h_valid.eq(array.valid),
            head.h.eq(array.o),
            head.dh_read.eq(tuner.dh),
            head.b_read.eq(tuner.entry),
            tuner.start.eq(self.start),
            tuner.count.eq(self.count),
            tuner.learn.eq(1),
            tuner.rate.eq(self.rate),
            tuner.finished.eq(head.finished),
            tuner.complete.eq(array.complete),
            tuner.sums.eq(array.sums),
            tuner.b_value.eq(head.b_value),
            tuner.db_value.eq(head.db_value),
            self.done.eq(tuner.done),
            self.updated.eq(tuner.write),
            self.beat.eq(tuner.o),
        ]
        wiring.connect(m, head.logits, wiring.flipped(self.logits))
        self._operands(m, tuner, head)
        return m

    def _operands(self, m: Module, tuner: Tuner, head: Head) -> None:
        """Inputs and parameters, two registers after the tuner's addresses."""
        plan, array = self.plan, self.array
        m.submodules.batch = batch = memory.Memory(
            shape=self.word.shape(), depth=self.batch * self.words, init=[], attrs={"ram_style": "block"}
        )
        into, fetch = batch.write_port(), batch.read_port()
        m.d.comb += [
            into.en.eq(self.word_write),
            into.addr.eq(self.address),
            into.data.eq(self.word),
            fetch.addr.eq(tuner.address),
        ]
        # a beat comes from outside or from the tuner; A's tiles are first, then B
        slices, tile_beats = tuner.slices, plan.tiles * tuner.slices
        bits = exact_log2(slices)
        place, value = Signal.like(tuner.beat), Signal(128)
        m.d.comb += [
            place.eq(Mux(self.load, self.place, tuner.beat)),
            value.eq(Mux(self.load, self.load_beat, tuner.o)),
        ]
        write = self.load | tuner.write
        parts = []
        for number in range(slices):
            part = memory.Memory(shape=unsigned(128), depth=plan.tiles, init=[], attrs={"ram_style": "block"})
            m.submodules[f"a{number}"] = part
            store, read = part.write_port(), part.read_port()
            mine = write & (place < tile_beats) & (place[:bits] == number)
            m.d.comb += [store.en.eq(mine), store.addr.eq(place[bits:]), store.data.eq(value), read.addr.eq(tuner.tile)]
            parts.append(read.data)
        tile = Signal(data.ArrayLayout(PARAMETER, plan.lanes * plan.columns))
        m.d.comb += [
            tile.eq(Cat(parts)),
            tuner.parameters.eq(tile),
            head.b_write.eq(write & (place >= tile_beats)),
            head.b_address.eq(place - tile_beats),
            head.b_data.eq(Value.cast(value)[: len(Value.cast(head.b_data))]),
        ]
        for lane in range(plan.lanes):
            x = Signal(VALUE, name=f"x{lane}")
            m.d.sync += x.eq(fetch.data[lane])
            m.d.comb += array.x[lane].eq(x)
        within = delayed(m, tuner.within, 1, "own")
        for number in range(plan.lanes * plan.columns):
            w = Signal(PARAMETER, name=f"w{number}")
            m.d.sync += w.eq(Mux(within, head.dh[number % plan.columns], tile[number]))
            m.d.comb += array.w[number].eq(w)
        for name in ("enable", "within", "first", "last"):
            m.d.comb += getattr(array, name).eq(delayed(m, getattr(tuner, name), 2, name))
        m.d.comb += head.base_valid.eq(delayed(m, tuner.base, 2, "base_logits"))
        m.d.comb += [head.base[number].eq(array.x[number]) for number in range(plan.network.classes)]
