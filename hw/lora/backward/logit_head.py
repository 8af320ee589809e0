"""Logit head, the end of the network sample by sample: logits, softmax, loss gradient, each adapter's part of it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q4_12, Q8_16
from ....golden.lora.mapping import AdapterMapping
from ....golden.lora.mseloss import MselossSpec
from ....golden.nn.arithmetic.forward import PRODUCT_FRACTION
from ....golden.nn.celoss import CelossSpec
from ....golden.nn.softmax import SoftmaxSpec
from ...nn.celoss import Celoss
from ...nn.interfaces import ACTIVATION, LOGIT, PARAMETER, PRODUCT
from ...nn.softmax import Softmax
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import Pipeline
from ...primitives.rounding import RoundSaturate
from ..engine_interfaces import BRead, BWrite, ForwardValues, HiddenGradientRead, TargetRead
from ..job_interfaces import LabelWrite
from ..mseloss import Mseloss
from .epoch_loss import GradientWatch

LOGITS_WAITING = 64
"""Logits that may wait for the softmax, or more where a sample has more."""
READ, MULTIPLY, SUM = 1, 1, 1
"""Registers of a memory read, of a product, of a sum."""
LABEL_READ = 2
"""From a label's address to the label: the address's register, and the memory."""
GRADIENT_PRODUCT = signed(2 * PARAMETER.width)
"""A loss gradient times a parameter."""


class LogitHead(wiring.Component):
    """Follow the adapters' forward pass; three steps work on three samples at a time.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    sum_width : int
        Bits of a gradient of B, at least those of a sum of so many products.
    watched : bool
        Gradients with respect to logits are shown.

    Attributes
    ----------
    start : In, 1
        A batch begins: whatever comes belongs to its samples in order.
    half : In, 1
        Half of the labels' memory that has the batch's.
    forward : In, `ForwardValues`
        Hidden values and base logits; a sample's logits begin when all of its values are there.
    labels : In, `LabelWrite`
        Labels of either half.
    targets : Out, `TargetRead`, only where samples are targets
        Reads of the batch's samples.
    finished : Out, range(batch + 1)
        Samples of which all gradients are known.
    gradients : In, `HiddenGradientRead`
        Gradients at the hidden values.
    b_write : In, `BWrite`
        Writes to B.
    b_read : In, `BRead`
        B, and the batch's gradient of it.
    show : In, 1
        Logits also go out through `logits`; stays the same during a batch.
    logits : Out stream of logits
        Logits of the tuned network, a sample after the other.
    gradient : Out, `GradientWatch`, where it is shown
        Gradients of the cross entropy with respect to logits.
    clipped : Out, range(ranks + 2), or ranks + 3 where samples are targets
        Logits and gradients that were clipped in the cycle before.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, sum_width: int, watched: bool = False) -> None:
        self.mapping, self.batch, self.sum_width, self.watched = mapping, batch, sum_width, watched
        self.entries = mapping.classes * mapping.adapters
        self.has_targets = mapping.loss == "mse"
        super().__init__(
            {
                **dict.fromkeys(("start", "half", "show"), In(1)),
                "forward": In(ForwardValues(mapping)),
                "labels": In(LabelWrite(batch)),
                **({"targets": Out(TargetRead(mapping, batch))} if self.has_targets else {}),
                "finished": Out(range(batch + 1)),
                "gradients": In(HiddenGradientRead(mapping, batch)),
                "b_write": In(BWrite(mapping)),
                "b_read": In(BRead(mapping, self.sum_width)),
                "logits": Out(LOGIT),
                **({"gradient": Out(GradientWatch())} if watched else {}),
                "clipped": Out(range(mapping.ranks + 2 + self.has_targets)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, forward, b_write = self.mapping, self.forward, self.b_write
        m.submodules.b = b = memory.Memory(shape=b_write.value.shape(), depth=self.entries, init=[])
        m.submodules.h = h = memory.Memory(shape=forward.hidden.shape(), depth=self.batch * mapping.adapters, init=[])
        store, h_in = b.write_port(), h.write_port()
        m.d.comb += [store.en.eq(b_write.enable), store.addr.eq(b_write.address), store.data.eq(b_write.value)]
        position = Signal(range(self.batch * mapping.adapters + 1))
        m.d.comb += [h_in.en.eq(forward.hidden_valid), h_in.addr.eq(position), h_in.data.eq(forward.hidden)]
        with m.If(self.start):
            m.d.sync += position.eq(0)
        with m.Elif(forward.hidden_valid):
            m.d.sync += position.eq(position + 1)

        # at least those of a sample
        depth = max(LOGITS_WAITING, 1 << (mapping.classes - 1).bit_length())
        m.submodules.waiting = waiting = fifo.SyncFIFOBuffered(width=len(Value.cast(self.logits.payload)), depth=depth)
        logit_clipped = self._logits(m, b, h, position, waiting)
        gradients, loss_clipped = self._targeted(m, waiting) if self.has_targets else self._labelled(m, waiting)
        dh_clipped = self._gradients(m, b, h, gradients)
        m.d.sync += self.clipped.eq(sum(dh_clipped, Value.cast(logit_clipped)) + loss_clipped)
        return m

    def _labelled(self, m: Module, waiting: fifo.SyncFIFOBuffered) -> tuple[stream.Interface, Value | int]:
        """Cross entropy: logits go to the softmax, and at the same time out; its gradients, none of them clipped."""
        m.submodules.softmax = softmax = Softmax(SoftmaxSpec(classes=self.mapping.classes))
        m.submodules.celoss = celoss = Celoss(CelossSpec())
        wiring.connect(m, softmax.o, celoss.i)
        given = self.logits.payload.shape()(waiting.r_data)
        both = softmax.i.ready & (self.logits.ready | ~self.show)
        m.d.comb += [
            softmax.i.valid.eq(waiting.r_rdy & (self.logits.ready | ~self.show)),
            softmax.i.payload.logit.eq(given.logit),
            softmax.i.payload.last.eq(given.last),
            self.logits.valid.eq(waiting.r_rdy & softmax.i.ready & self.show),
            self.logits.payload.eq(given),
            waiting.r_en.eq(both),
        ]
        self._labels(m, celoss)
        if self.watched:
            shown, watch = celoss.o, self.gradient
            m.d.comb += [
                watch.valid.eq(shown.valid & shown.ready),
                watch.gradient.eq(shown.payload.gradient),
                watch.last.eq(shown.payload.last),
            ]
        return celoss.o, 0

    def _targeted(self, m: Module, waiting: fifo.SyncFIFOBuffered) -> tuple[stream.Interface, Value]:
        """Squared error: a logit goes out, then to the loss with its target; its gradients, and if one is clipped."""
        m.submodules.mseloss = loss = Mseloss(MselossSpec())
        given, shown = self.logits.payload.shape()(waiting.r_data), Signal()
        m.d.comb += [
            self.logits.valid.eq(waiting.r_rdy & self.show & ~shown),
            self.logits.payload.eq(given),
            loss.i.valid.eq(waiting.r_rdy & (shown | ~self.show)),
            loss.i.payload.logit.eq(given.logit),
            loss.i.payload.last.eq(given.last),
            waiting.r_en.eq(loss.i.valid & loss.i.ready),
        ]
        m.d.sync += shown.eq((shown | (self.logits.valid & self.logits.ready)) & ~waiting.r_en)
        self._targets(m, loss)
        return loss.o, loss.o.valid & loss.o.ready & loss.o.payload.clipped

    def _targets(self, m: Module, loss: Mseloss) -> None:
        """Give the values of the batch's samples one after the other, a row of the batch memory at a time."""
        mapping, read = self.mapping, self.targets
        row = Signal(read.values.shape().size)
        there, comes, over = Signal(), Signal(), Signal()
        lane, number = Signal(range(mapping.logits_per_row)), Signal(range(mapping.classes))
        last = number == mapping.classes - 1
        taken = loss.target.valid & loss.target.ready
        m.d.comb += [
            loss.target.valid.eq(there),
            loss.target.payload.target.eq(row[: ACTIVATION.width]),
            over.eq(taken & (last | (lane == mapping.logits_per_row - 1))),
        ]
        m.d.sync += [comes.eq(read.free & ~there & ~comes), there.eq((there & ~over) | comes)]
        with m.If(taken):
            m.d.sync += [row.eq(row >> ACTIVATION.width), lane.eq(Mux(over, 0, lane + 1))]
            m.d.sync += number.eq(Mux(last, 0, number + 1))
        with m.If(over):
            # a sample's rows are the first of those that it has
            m.d.sync += read.address.eq(read.address + Mux(last, mapping.sample_rows - mapping.logit_rows + 1, 1))
        with m.If(comes):
            m.d.sync += row.eq(read.values.as_value())
        with m.If(self.start):
            begin = self.batch * mapping.sample_rows
            m.d.sync += [read.address.eq(Mux(self.half, begin, 0)), there.eq(0), comes.eq(0), lane.eq(0), number.eq(0)]

    def _labels(self, m: Module, celoss: Celoss) -> None:
        """Give the batch's labels one after the other."""
        m.submodules.labels = labels = memory.Memory(shape=unsigned(8), depth=2 * self.batch, init=[])
        store, fetch = labels.write_port(), labels.read_port()
        position, fresh = Signal(range(self.batch + 1)), Signal(LABEL_READ)
        m.d.comb += [
            store.en.eq(self.labels.enable),
            store.addr.eq(self.labels.address),
            store.data.eq(self.labels.label),
            fetch.addr.eq(position + Mux(self.half, self.batch, 0)),
            celoss.label.valid.eq(fresh[-1]),
            celoss.label.payload.label.eq(fetch.data),
        ]
        m.d.sync += fresh.eq(Cat(1, fresh[:-1]))
        with m.If(self.start):
            m.d.sync += [position.eq(0), fresh.eq(0)]
        with m.Elif(celoss.label.valid & celoss.label.ready):
            m.d.sync += [position.eq(position + 1), fresh.eq(0)]

    def _logits(
        self, m: Module, b: memory.Memory, h: memory.Memory, seen: Value, waiting: fifo.SyncFIFOBuffered
    ) -> Value:
        """Add B h to the base logits, a class in as many cycles as adapters; returns whether a logit is clipped.

        Longer than most: the state machine and the pipeline behind it share the sample's counters.
        """
        mapping, forward = self.mapping, self.forward
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "total": exact_log2(ranks), "logit": SUM}
        pipeline = Pipeline(m, stages | {"rounded": RoundSaturate.LATENCY})
        # by then a sample's last logit is in the FIFO, whose level decides on the next one
        behind = pipeline.latency("issue", "rounded")
        sample_width = len(Value.cast(forward.base))
        rows = mapping.logit_rows
        m.submodules.bases = bases = memory.Memory(shape=unsigned(sample_width), depth=self.batch * rows, init=[])
        into, base = bases.write_port(), bases.read_port()
        bases_seen, needed, sample = Signal(range(self.batch + 1)), Signal.like(seen), Signal(range(self.batch + 1))
        m.d.comb += [into.en.eq(forward.base_valid), into.data.eq(forward.base)]
        whole = forward.base_valid
        if rows > 1:
            row = Signal(range(rows))
            whole &= row == rows - 1
            with m.If(forward.base_valid):
                m.d.sync += [row.eq(Mux(whole, 0, row + 1)), into.addr.eq(into.addr + 1)]
        else:
            m.d.comb += into.addr.eq(bases_seen)
        b_port, h_port = b.read_port(), h.read_port()
        entry, number, adapter = Signal(range(self.entries)), Signal(range(classes)), Signal(range(adapters))
        origin = Signal(range(self.batch * adapters + 1))
        left, pause = Signal(sample_width), Signal(range(behind))
        begin, issue, end = Signal(), Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(Mux(issue, entry, self.b_read.address)),
            self.b_read.value.eq(b_port.data),
            h_port.addr.eq(origin + adapter),
            end.eq(adapter == adapters - 1),
        ]
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += [entry.eq(0), number.eq(0), adapter.eq(0), pause.eq(behind - 1)]
                room = (
                    waiting.level < waiting.depth - 2 * classes if waiting.depth > 2 * classes else waiting.level == 0
                )
                with m.If((bases_seen != sample) & (seen >= needed) & room):
                    m.next = "RUN"
                    m.d.sync += left.eq(base.data)
                    m.d.comb += begin.eq(1)
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [entry.eq(entry + 1), adapter.eq(Mux(end, 0, adapter + 1)), number.eq(number + end)]
                with m.If(end & (number == classes - 1)):
                    m.d.sync += [sample.eq(sample + 1), needed.eq(needed + adapters), origin.eq(origin + adapters)]
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.next = "WAIT"
        products = [Signal(PRODUCT, name=f"logit_product{rank}") for rank in range(ranks)]
        m.d.sync += [p.eq(b_port.data[r] * h_port.data[r]) for r, p in enumerate(products)]
        total = adder_tree(m, products, "logitd")
        step = pipeline.place("issue", issue, "logit_step").at("total")
        first = pipeline.place("issue", adapter == 0, "logit_first").at("total")
        last = pipeline.place("issue", issue & end, "logit_last").at("total")
        final = pipeline.place("issue", number == classes - 1, "logit_final").at("rounded")
        logit = Signal(signed(max(len(total), PRODUCT.width) + adapters.bit_length() + 1))
        with m.If(step):
            m.d.sync += logit.eq(Mux(first, left[: ACTIVATION.width].as_signed() << Q4_12.fraction, logit) + total)
            with m.If(first):
                m.d.sync += left.eq(left >> ACTIVATION.width)
        if rows == 1:
            m.d.comb += base.addr.eq(sample)
        else:
            more = pipeline.place("issue", number != classes - 1, "logit_more").at("total")
            self._next_row(m, base, left, begin, step & first, more)
            with m.If(self.start):
                m.d.sync += into.addr.eq(0)
        m.submodules.logit_rounding = rounding = RoundSaturate(len(logit), PRODUCT_FRACTION - Q8_16.fraction, Q8_16)
        valid = pipeline.place("total", last, "logit_valid").at("rounded")
        m.d.comb += [
            rounding.i.eq(logit),
            waiting.w_en.eq(valid),
            waiting.w_data.eq(Cat(rounding.o, final)),
        ]
        with m.If(whole):
            m.d.sync += bases_seen.eq(bases_seen + 1)
        with m.If(self.start):
            m.d.sync += [bases_seen.eq(0), sample.eq(0), needed.eq(adapters), origin.eq(0)]
        return rounding.clipped & valid

    def _next_row(self, m: Module, base: memory.ReadPort, left: Signal, begin: Value, used: Value, more: Value) -> None:
        """Rows of base logits one after the other: a sample begins with one, and takes the next where it has more."""
        lane, following = Signal(range(self.mapping.logits_per_row)), Signal()
        m.d.comb += following.eq(used & more & (lane == self.mapping.logits_per_row - 1))
        with m.If(used):
            m.d.sync += lane.eq(lane + 1)
        with m.If(following):
            m.d.sync += left.eq(base.data)
        with m.If(begin | following):
            m.d.sync += [lane.eq(0), base.addr.eq(base.addr + 1)]
        with m.If(self.start):
            m.d.sync += base.addr.eq(0)

    def _gradients(self, m: Module, b: memory.Memory, h: memory.Memory, given: stream.Interface) -> list[Value]:
        """Compute dh = B' g, rounded, and dB, the batch's sum of g h'; an adapter takes a cycle a class.

        Longer than most, as both share operands and counters. Returns a flag for each rank whose dh is clipped.
        """
        mapping = self.mapping
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        m.submodules.db = db = memory.Memory(shape=self.b_read.gradient.shape(), depth=self.entries, init=[])
        m.submodules.dhs = dhs = memory.Memory(shape=self.gradients.value.shape(), depth=self.batch * adapters, init=[])
        b_port, h_port, old, new = b.read_port(), h.read_port(), db.read_port(), db.write_port()
        dh_port, dh_in = dhs.read_port(), dhs.write_port()
        taken, number, adapter = Signal(range(classes)), Signal(range(classes)), Signal(range(adapters))
        entry, origin = Signal(range(self.entries + adapters)), Signal(range(self.batch * adapters + 1))
        sample, issue, end, fresh = Signal(range(self.batch + 1)), Signal(), Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(entry),
            h_port.addr.eq(origin + adapter),
            old.addr.eq(Mux(issue, entry, self.b_read.address)),
            self.b_read.gradient.eq(old.data),
            end.eq(number == classes - 1),
            fresh.eq(sample == 0),
            dh_port.addr.eq(self.gradients.address),
            self.gradients.value.eq(dh_port.data),
        ]
        with m.FSM():
            with m.State("COLLECT"):
                m.d.comb += given.ready.eq(1)
                with m.If(given.valid):
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
        gradient = self._gradient(m, given, taken, number)
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "sums": SUM, "rounded": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        beginning = pipeline.place("issue", number == 0, "dh_first").at("products")
        over = pipeline.place("issue", issue & end, "dh_last").at("products")
        step = pipeline.place("issue", issue, "db_step").at("products")
        position = pipeline.place("issue", entry, "db_position").at("products")
        first_sample = pipeline.place("issue", fresh, "db_first").at("products")
        clipped = []
        before = Signal.like(old.data)
        m.d.sync += before.eq(old.data)
        sums = []
        valid = pipeline.place("products", over, "dh_valid").at("rounded")
        for rank in range(ranks):
            lower, outer = Signal(GRADIENT_PRODUCT, name=f"lower{rank}"), Signal(PRODUCT, name=f"outer{rank}")
            total = Signal(signed(GRADIENT_PRODUCT.width + classes.bit_length()), name=f"dh_sum{rank}")
            m.d.sync += [
                lower.eq(b_port.data[rank] * gradient),
                outer.eq(h_port.data[rank] * gradient),
                total.eq(Mux(beginning, 0, total) + lower),
            ]
            sums.append(Mux(first_sample, 0, before[rank]) + outer)
            m.submodules[f"dh_rounding{rank}"] = rounding = RoundSaturate(len(total), Q4_12.fraction, Q4_12)
            m.d.comb += [rounding.i.eq(total), dh_in.data[rank].eq(rounding.o)]
            clipped.append(rounding.clipped & valid)
        written = Signal.like(new.data)
        m.d.sync += [written[rank].eq(total) for rank, total in enumerate(sums)]
        m.d.comb += [
            new.en.eq(pipeline.place("products", step, "db_write").at("sums")),
            new.addr.eq(pipeline.place("products", position, "db_address").at("sums")),
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

    def _gradient(self, m: Module, given: stream.Interface, taken: Value, number: Value) -> Value:
        """The sample's loss gradient of a class, a cycle after its number; they come one by one.

        Registers hold those that a word of the array would, and a memory more.
        """
        moves, classes = given.valid & given.ready, self.mapping.classes
        if classes > self.mapping.lanes:
            m.submodules.gradients = store = memory.Memory(shape=PARAMETER, depth=classes, init=[])
            into, port = store.write_port(), store.read_port()
            m.d.comb += [
                into.en.eq(moves),
                into.addr.eq(taken),
                into.data.eq(given.payload.gradient),
                port.addr.eq(number),
            ]
            return port.data
        gradients = [Signal(PARAMETER, name=f"gradient{at}") for at in range(classes)]
        with m.If(moves):
            for at, gradient in enumerate(gradients):
                with m.If(taken == at):
                    m.d.sync += gradient.eq(given.payload.gradient)
        chosen = Signal(PARAMETER)
        m.d.sync += chosen.eq(Array(gradients)[number])
        return chosen
