"""RTL of `adapter`: the core's tuner and head with memories of their own, and streams around them."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.adapter import AdapterSpec
from ...golden.lora.mapping import AdapterMapping
from ..nn.mac import PARAMETER, MacArray
from ..nn.pooling import VALUE
from ..nn.weight_memory import WeightMemory
from ..ports import elements, members
from ..primitives.pipeline import delayed
from .backward_sequencer import BackwardSequencer
from .logit_head import LOGIT, LogitHead
from .update import RATE, VALUES


class Adapter(wiring.Component):
    """A label, then its sample, a row of words a cycle; after the batch's last one it is tuned.

    Logits come while it is, updated parameters at its end; all of it waits while a beat is on offer and not taken.
    Parameters are taken between batches, a whole image at a time; before the first since reset nothing else is taken.
    """

    def __init__(self, spec: AdapterSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        mapping = spec.mapping
        inner = Tuning(mapping, spec.batch, spec.rows)
        move = Signal()
        m.submodules.inner = EnableInserter(move)(inner)
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.o.valid.eq(inner.updated[0]),
            *(
                # B's beats come alone
                into.eq(Mux(inner.updated[at // VALUES], inner.beats[at], 0) if at >= VALUES else inner.beats[at])
                for at, into in enumerate(elements(self.o.payload.parameter, spec.streams()["o"].fields[0]))
            ),
            self.logits.valid.eq(inner.logits.valid),
            self.logits.payload.logit.eq(inner.logits.payload.logit),
            self.logits.payload.last.eq(inner.logits.payload.last),
            inner.logits.ready.eq(self.logits.ready),
        ]
        count, samples = Signal(range(spec.batch + 1)), Signal(range(spec.batch + 1))
        closed, loaded, busy = Signal(), Signal(), Signal()
        beat, last_beat = Signal(range(mapping.adapter_beats)), Signal()
        address, row, last_row = Signal(range(spec.batch * spec.rows)), Signal(range(spec.rows)), Signal()
        fresh, wanted = Signal(init=1), Signal()
        label, given, load = self.label.payload, self.i.payload, self.load.payload
        m.d.comb += [
            self.load.ready.eq(fresh),
            self.label.ready.eq(loaded & ~closed & ~(fresh & self.load.valid)),
            self.i.ready.eq(wanted),
            inner.label_write.eq(self.label.valid & self.label.ready),
            inner.label_address.eq(count),
            inner.label.eq(label.label),
            inner.row_write.eq(self.i.valid & self.i.ready),
            inner.address.eq(address),
            inner.row.eq(given.x),
            inner.count.eq(count),
        ]
        # whatever enters does so while the tuner is idle: nothing is on offer, nothing waits
        taken = self.load.valid & self.load.ready
        m.d.sync += [inner.load.eq(taken), inner.place.eq(beat), inner.load_beats.eq(load.parameter)]
        step = Mux(beat < mapping.a_beats, 2, 1) if mapping.words_per_cycle == 2 else 1
        with m.If(taken):
            m.d.sync += [
                beat.eq(Mux(last_beat, 0, beat + step)),
                last_beat.eq(beat == mapping.adapter_beats - 2),
                loaded.eq(last_beat),
            ]
        with m.If(inner.label_write):
            end = label.last | (count == spec.batch - 1)
            m.d.sync += [count.eq(count + 1), closed.eq(end), inner.rate.eq(label.rate), fresh.eq(0)]
        with m.If(inner.row_write):
            m.d.sync += [address.eq(address + 1), row.eq(Mux(last_row, 0, row + 1))]
            m.d.sync += last_row.eq(row == spec.rows - 2)
            with m.If(last_row):
                m.d.sync += samples.eq(samples + 1)
        # a row is wanted once its sample's label is there; looked up for a cycle between samples
        ended = inner.row_write & last_row
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
    load, place, load_beats
        Neighbouring beats of the adapters' image, and the number of the first; of B only one.
    label_write, label_address, label, row_write, address, row
        Of a batch.
    start, count, rate, done
        Tunes on it.
    updated, beats
        Beats of the image, in order, and which of them are there.
    logits
        Of its samples.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, rows: int) -> None:
        self.mapping, self.batch, self.rows = mapping, batch, rows
        self.array = MacArray(
            mapping.lanes,
            mapping.columns,
            mapping.adapter_rows * mapping.lanes * mapping.words_per_cycle,
            batch,
            mapping.words_per_cycle,
        )
        beats = data.ArrayLayout(PARAMETER, VALUES * mapping.words_per_cycle)
        super().__init__(
            {
                **dict.fromkeys(("load", "label_write", "row_write", "start"), In(1)),
                "place": In(range(mapping.adapter_beats)),
                "load_beats": In(beats),
                "label_address": In(range(batch + 1)),
                "label": In(8),
                "address": In(range(batch * rows)),
                "row": In(data.ArrayLayout(VALUE, mapping.lanes * mapping.words_per_cycle)),
                "count": In(range(batch + 1)),
                "rate": In(RATE),
                "done": Out(1),
                "updated": Out(mapping.words_per_cycle),
                "beats": Out(beats),
                "logits": Out(LOGIT),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, array = self.mapping, self.array
        m.submodules.array = array
        m.submodules.tuner = tuner = BackwardSequencer(mapping, self.batch, array.within_width)
        m.submodules.head = head = LogitHead(mapping, self.batch)
        m.d.comb += [
            head.start.eq(self.start),
            head.label_write.eq(self.label_write),
            head.label_address.eq(self.label_address),
            head.label.eq(self.label),
            head.show.eq(1),
            head.h_valid.eq(array.valid),
            *(head.h[rank].eq(array.o[rank]) for rank in range(mapping.ranks)),
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
            self.beats.eq(tuner.o),
        ]
        wiring.connect(m, head.logits, wiring.flipped(self.logits))
        self._operands(m, tuner, head)
        return m

    def _operands(self, m: Module, tuner: BackwardSequencer, head: LogitHead) -> None:
        """Inputs and parameters, two registers after the tuner's addresses."""
        mapping, array = self.mapping, self.array
        m.submodules.batch = batch = memory.Memory(
            shape=self.row.shape(), depth=self.batch * self.rows, init=[], attrs={"ram_style": "block"}
        )
        into, fetch = batch.write_port(), batch.read_port()
        m.d.comb += [
            into.en.eq(self.row_write),
            into.addr.eq(self.address),
            into.data.eq(self.row),
            fetch.addr.eq(tuner.address),
        ]
        # beats come from outside or from the tuner; A's tiles are first, then B
        tile_beats = mapping.a_beats
        place, beats, of_b = Signal.like(tuner.beat), Signal(len(Value.cast(tuner.o))), Signal()
        write = self.load | tuner.write[0]
        m.submodules.a = a = WeightMemory(mapping.adapter_rows, mapping.lanes, mapping.columns, mapping.words_per_cycle)
        m.d.comb += [
            place.eq(Mux(self.load, self.place, tuner.beat)),
            beats.eq(Mux(self.load, self.load_beats, tuner.o)),
            of_b.eq(place >= tile_beats),
            a.write.eq((write & ~of_b).replicate(mapping.words_per_cycle)),
            a.place.eq(place),
            a.beats.eq(beats),
            a.address.eq(tuner.tile),
            tuner.parameters.eq(a.word),
            head.b_write.eq(write & of_b),
            head.b_address.eq(place - tile_beats),
            head.b_data.eq(beats[: len(Value.cast(head.b_data))]),
        ]
        for number, value in enumerate(fetch.data):
            x = Signal(VALUE, name=f"x{number}")
            m.d.sync += x.eq(value)
            m.d.comb += array.x[number].eq(x)
        if mapping.words_per_cycle == 2:
            m.d.comb += array.paired.eq(1)
        within = delayed(m, tuner.within, 1, "own")
        for number in range(mapping.lanes * mapping.columns):
            w = Signal(PARAMETER, name=f"w{number}")
            m.d.sync += w.eq(Mux(within, head.dh[number % mapping.ranks], a.word[number]))
            m.d.comb += array.w[number].eq(w)
        for name in ("enable", "within", "first", "last"):
            m.d.comb += getattr(array, name).eq(delayed(m, getattr(tuner, name), 2, name))
        m.d.comb += head.base_valid.eq(delayed(m, tuner.base, 2, "base_logits"))
        m.d.comb += [head.base[number].eq(array.x[number]) for number in range(mapping.classes)]
