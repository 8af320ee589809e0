"""The end of the network, sample by sample: logits, softmax, loss gradient, and what each adapter gets of it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.fixed import Q4_12, Q8_16, accumulator_width
from ...golden.lora.mapping import AdapterMapping
from ...golden.nn.celoss import CelossSpec
from ...golden.nn.forward import PRODUCT_FRACTION
from ...golden.nn.softmax import SoftmaxSpec
from ..nn.celoss import Celoss
from ..nn.mac import ACTIVATION, PARAMETER, PRODUCT
from ..nn.softmax import Softmax
from ..primitives.adder_tree import adder_tree
from ..primitives.pipeline import delayed
from ..primitives.rounding import RoundSaturate

LOGIT = stream.Signature(data.StructLayout({"logit": ACTIVATION, "last": 1}))


class LogitHead(wiring.Component):
    """Follows the adapters' forward pass; three steps work on three samples at a time.

    Attributes
    ----------
    start
        A batch begins: whatever comes belongs to its samples in order.
    half
        Of the labels' memory: which batch.
    h_valid, h
        What an adapter passes on; adapters in order, sample by sample.
    base_valid, base
        A sample's base logits.
    label_write, label_address, label
        Labels of either batch.
    finished
        Samples of which all gradients are known.
    dh_read, dh
        Gradient of sample x adapters + adapter, one cycle later.
    b_write, b_address, b_data, b_read, b_value, db_value
        B, and the batch's gradient of it: word class x adapters + adapter; read one cycle later, between batches.
    show, logits
        Logits also go out there.
    clipped
        How many values were clipped in this cycle.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        self.mapping, self.batch = mapping, batch
        self.entries = mapping.classes * mapping.adapters
        self.sum_width = accumulator_width(Q8_16, Q4_12, batch)
        ranks = mapping.ranks
        b = data.ArrayLayout(PARAMETER, ranks)
        super().__init__(
            {
                **dict.fromkeys(("start", "half", "h_valid", "base_valid", "label_write", "b_write", "show"), In(1)),
                "h": In(data.ArrayLayout(ACTIVATION, ranks)),
                "base": In(data.ArrayLayout(ACTIVATION, mapping.classes)),
                "label_address": In(range(2 * batch)),
                "label": In(8),
                "finished": Out(range(batch + 1)),
                "dh_read": In(range(batch * mapping.adapters)),
                "dh": Out(b),
                "b_address": In(range(self.entries)),
                "b_data": In(b),
                "b_read": In(range(self.entries)),
                "b_value": Out(b),
                "db_value": Out(data.ArrayLayout(signed(self.sum_width), ranks)),
                "logits": Out(LOGIT),
                "clipped": Out(range(ranks + 2)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        m.submodules.b = b = memory.Memory(shape=self.b_data.shape(), depth=self.entries, init=[])
        m.submodules.h = h = memory.Memory(shape=self.h.shape(), depth=self.batch * mapping.adapters, init=[])
        store, h_in = b.write_port(), h.write_port()
        m.d.comb += [store.en.eq(self.b_write), store.addr.eq(self.b_address), store.data.eq(self.b_data)]
        place = Signal(range(self.batch * mapping.adapters + 1))
        m.d.comb += [h_in.en.eq(self.h_valid), h_in.addr.eq(place), h_in.data.eq(self.h)]
        with m.If(self.start):
            m.d.sync += place.eq(0)
        with m.Elif(self.h_valid):
            m.d.sync += place.eq(place + 1)

        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=len(Value.cast(self.logits.payload)), depth=64)
        logit_clipped = self._logits(m, b, h, place, queue)
        m.submodules.softmax = softmax = Softmax(SoftmaxSpec(classes=mapping.classes))
        m.submodules.celoss = celoss = Celoss(CelossSpec())
        wiring.connect(m, softmax.o, celoss.i)
        given = self.logits.payload.shape()(queue.r_data)
        both = softmax.i.ready & (self.logits.ready | ~self.show)
        m.d.comb += [
            softmax.i.valid.eq(queue.r_rdy & (self.logits.ready | ~self.show)),
            softmax.i.payload.logit.eq(given.logit),
            softmax.i.payload.last.eq(given.last),
            self.logits.valid.eq(queue.r_rdy & softmax.i.ready & self.show),
            self.logits.payload.eq(given),
            queue.r_en.eq(both),
        ]
        self._labels(m, celoss)
        dh_clipped = self._gradients(m, b, h, celoss)
        m.d.sync += self.clipped.eq(sum(dh_clipped, Value.cast(logit_clipped)))
        return m

    def _labels(self, m: Module, celoss: Celoss) -> None:
        """One after the other as they are asked for."""
        m.submodules.labels = labels = memory.Memory(shape=unsigned(8), depth=2 * self.batch, init=[])
        store, fetch = labels.write_port(), labels.read_port()
        place, fresh = Signal(range(self.batch + 1)), Signal(2)
        m.d.comb += [
            store.en.eq(self.label_write),
            store.addr.eq(self.label_address),
            store.data.eq(self.label),
            fetch.addr.eq(place + Mux(self.half, self.batch, 0)),
            celoss.label.valid.eq(fresh[1]),
            celoss.label.payload.label.eq(fetch.data),
        ]
        m.d.sync += fresh.eq(Cat(1, fresh[0]))
        with m.If(self.start):
            m.d.sync += [place.eq(0), fresh.eq(0)]
        with m.Elif(celoss.label.valid & celoss.label.ready):
            m.d.sync += [place.eq(place + 1), fresh.eq(0)]

    def _logits(
        self, m: Module, b: memory.Memory, h: memory.Memory, seen: Value, queue: fifo.SyncFIFOBuffered
    ) -> Value:
        """Base logits + B h: a class takes as many cycles as there are adapters."""
        mapping = self.mapping
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        m.submodules.bases = bases = memory.Memory(
            shape=unsigned(len(Value.cast(self.base))), depth=self.batch, init=[]
        )
        into, base = bases.write_port(), bases.read_port()
        bases_seen, needed, sample = Signal(range(self.batch + 1)), Signal.like(seen), Signal(range(self.batch + 1))
        m.d.comb += [into.en.eq(self.base_valid), into.addr.eq(bases_seen), into.data.eq(self.base)]
        b_port, h_port = b.read_port(), h.read_port()
        entry, number, adapter = Signal(range(self.entries)), Signal(range(classes)), Signal(range(adapters))
        origin = Signal(range(self.batch * adapters + 1))
        left, held = Signal(len(Value.cast(self.base))), Signal(4)
        issue, end = Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(Mux(issue, entry, self.b_read)),
            self.b_value.eq(b_port.data),
            h_port.addr.eq(origin + adapter),
            base.addr.eq(sample),
            end.eq(adapter == adapters - 1),
        ]
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += [entry.eq(0), number.eq(0), adapter.eq(0), held.eq(8)]
                room = queue.level < queue.depth - 2 * classes if queue.depth > 2 * classes else queue.level == 0
                with m.If((bases_seen != sample) & (seen >= needed) & room):
                    m.next = "RUN"
                    m.d.sync += left.eq(base.data)
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [entry.eq(entry + 1), adapter.eq(Mux(end, 0, adapter + 1)), number.eq(number + end)]
                with m.If(end & (number == classes - 1)):
                    m.d.sync += [sample.eq(sample + 1), needed.eq(needed + adapters), origin.eq(origin + adapters)]
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += held.eq(held - 1)
                with m.If(held == 0):
                    m.next = "WAIT"
        products = [Signal(signed(PRODUCT), name=f"raise{rank}") for rank in range(ranks)]
        m.d.sync += [p.eq(b_port.data[r] * h_port.data[r]) for r, p in enumerate(products)]
        total, levels = adder_tree(m, products, "raised"), exact_log2(ranks)
        step = delayed(m, issue, 2 + levels, "raise_step")
        first = delayed(m, adapter == 0, 2 + levels, "raise_first")
        last = delayed(m, issue & end, 2 + levels, "raise_last")
        final = delayed(m, number == classes - 1, 3 + levels + RoundSaturate.LATENCY, "raise_final")
        logit = Signal(signed(max(len(total), PRODUCT) + adapters.bit_length() + 1))
        with m.If(step):
            m.d.sync += logit.eq(Mux(first, left[: ACTIVATION.width].as_signed() << Q4_12.fraction, logit) + total)
            with m.If(first):
                m.d.sync += left.eq(left >> ACTIVATION.width)
        m.submodules.narrow_logit = narrow = RoundSaturate(len(logit), PRODUCT_FRACTION - Q8_16.fraction, Q8_16)
        valid = delayed(m, last, 1 + RoundSaturate.LATENCY, "logit_valid")
        m.d.comb += [
            narrow.i.eq(logit),
            queue.w_en.eq(valid),
            queue.w_data.eq(Cat(narrow.o, final)),
        ]
        with m.If(self.base_valid):
            m.d.sync += bases_seen.eq(bases_seen + 1)
        with m.If(self.start):
            m.d.sync += [bases_seen.eq(0), sample.eq(0), needed.eq(adapters), origin.eq(0)]
        return narrow.clipped & valid

    def _gradients(self, m: Module, b: memory.Memory, h: memory.Memory, celoss: Celoss) -> list[Value]:
        """Gradients dh = B' g, narrowed, and dB, the batch's sum of g h'; an adapter takes a cycle a class."""
        mapping = self.mapping
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        m.submodules.db = db = memory.Memory(shape=self.db_value.shape(), depth=self.entries, init=[])
        m.submodules.dhs = dhs = memory.Memory(shape=self.dh.shape(), depth=self.batch * adapters, init=[])
        gradients = [Signal(PARAMETER, name=f"gradient{number}") for number in range(classes)]
        b_port, h_port, old, new = b.read_port(), h.read_port(), db.read_port(), db.write_port()
        dh_port, dh_in = dhs.read_port(), dhs.write_port()
        taken, number, adapter = Signal(range(classes)), Signal(range(classes)), Signal(range(adapters))
        entry, origin = Signal(range(self.entries + adapters)), Signal(range(self.batch * adapters + 1))
        sample, issue, end, fresh = Signal(range(self.batch + 1)), Signal(), Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(entry),
            h_port.addr.eq(origin + adapter),
            old.addr.eq(Mux(issue, entry, self.b_read)),
            self.db_value.eq(old.data),
            end.eq(number == classes - 1),
            fresh.eq(sample == 0),
            dh_port.addr.eq(self.dh_read),
            self.dh.eq(dh_port.data),
        ]
        given = celoss.o
        with m.FSM():
            with m.State("COLLECT"):
                m.d.comb += given.ready.eq(1)
                with m.If(given.valid):
                    for at, gradient in enumerate(gradients):
                        with m.If(taken == at):
                            m.d.sync += gradient.eq(given.payload.gradient)
                    m.d.sync += taken.eq(taken + 1)
                    with m.If(given.payload.last):
                        m.d.sync += [taken.eq(0), number.eq(0), adapter.eq(0), entry.eq(0)]
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [number.eq(number + 1), entry.eq(entry + adapters)]
                with m.If(end):
                    m.d.sync += [number.eq(0), adapter.eq(adapter + 1), entry.eq(adapter + 1)]
                    with m.If(adapter == adapters - 1):
                        m.d.sync += [sample.eq(sample + 1), origin.eq(origin + adapters)]
                        m.next = "COLLECT"
        gradient = Signal(PARAMETER)
        m.d.sync += gradient.eq(Array(gradients)[number])
        beginning, over = delayed(m, number == 0, 2, "dh_first"), delayed(m, issue & end, 2, "dh_last")
        step, place = delayed(m, issue, 2, "db_step"), delayed(m, entry, 2, "db_place")
        first_sample = delayed(m, fresh, 2, "db_first")
        clipped = []
        before = Signal.like(old.data)
        m.d.sync += before.eq(old.data)
        sums = []
        valid = delayed(m, over, 1 + RoundSaturate.LATENCY, "dh_valid")
        for rank in range(ranks):
            lower, outer = Signal(signed(32), name=f"lower{rank}"), Signal(signed(PRODUCT), name=f"outer{rank}")
            total = Signal(signed(32 + classes.bit_length()), name=f"dh_sum{rank}")
            m.d.sync += [
                lower.eq(b_port.data[rank] * gradient),
                outer.eq(h_port.data[rank] * gradient),
                total.eq(Mux(beginning, 0, total) + lower),
            ]
            sums.append(Mux(first_sample, 0, before[rank]) + outer)
            m.submodules[f"narrow_dh{rank}"] = narrow = RoundSaturate(len(total), Q4_12.fraction, Q4_12)
            m.d.comb += [narrow.i.eq(total), dh_in.data[rank].eq(narrow.o)]
            clipped.append(narrow.clipped & valid)
        written = Signal.like(new.data)
        m.d.sync += [written[rank].eq(total) for rank, total in enumerate(sums)]
        m.d.comb += [
            new.en.eq(delayed(m, step, 1, "db_write")),
            new.addr.eq(delayed(m, place, 1, "db_address")),
            new.data.eq(written),
        ]
        at, done = Signal(range(self.batch * adapters + 1)), Signal(range(adapters + 1))
        m.d.comb += [dh_in.en.eq(valid), dh_in.addr.eq(at)]
        with m.If(valid):
            m.d.sync += [at.eq(at + 1), done.eq(done + 1)]
            with m.If(done == adapters - 1):
                m.d.sync += [done.eq(0), self.finished.eq(self.finished + 1)]
        with m.If(self.start):
            m.d.sync += [sample.eq(0), origin.eq(0), at.eq(0), done.eq(0), self.finished.eq(0)]
        return clipped
