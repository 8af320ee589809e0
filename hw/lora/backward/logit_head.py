"""Logit head: logits, softmax, loss gradient and the gradients of B and of hidden values, sample by sample."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import fifo, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q4_12, Q8_16
from ....golden.lora.mapping import AdapterMapping
from ....golden.lora.memories import HeadMemories, logit_fifo_depth
from ....golden.lora.mseloss import MselossSpec
from ....golden.nn.arithmetic.forward import PRODUCT_FRACTION
from ....golden.nn.celoss import CelossSpec
from ....golden.nn.softmax import SoftmaxSpec
from ...nn.celoss import Celoss
from ...nn.interfaces import ACTIVATION, LOGIT, PARAMETER, PRODUCT
from ...nn.softmax import Softmax
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import Pipeline
from ...primitives.ram import ram
from ...primitives.rounding import RoundSaturate
from ...probe import probe
from ..engine_interfaces import BRead, BWrite, ForwardValues, HiddenGradientRead, TargetRead
from ..job_interfaces import LabelWrite
from ..mseloss import Mseloss
from .class_halves import ClassHalves
from .epoch_loss import GradientWatch
from .softmax_pair import SoftmaxPair

READ, MULTIPLY, SUM = 1, 1, 1
"""Cycles of a memory read, of a product, of a sum."""
LABEL_READ = 2
"""Cycles from a label's address to the label."""
GRADIENT_PRODUCT = signed(2 * PARAMETER.width)
"""Product of a loss gradient and a parameter."""


class LogitHead(wiring.Component):
    """Follows the adapters' forward pass, with logits, loss and gradients of three samples in progress.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    sum_width : int
        Bits of a gradient of B, at least those of a batch's sum of products.
    watched : bool
        Adds the port `gradient`.

    Attributes
    ----------
    start : In(1)
        A batch begins; hidden values and base logits of its samples follow in order.
    half : In(1)
        Half of the labels' memory.
    forward : In, `ForwardValues`
        A sample's logits begin after all of its values.
    labels : In, `LabelWrite`
    targets : Out, `TargetRead`, with the loss ``mse``
        Reads of the batch's samples.
    finished : Out(range(batch + 1))
        Samples with complete gradients.
    gradients : In, `HiddenGradientRead`
    b_write : In, `BWrite`
    b_read : In, `BRead`
    show : In(1)
        Enables `logits`; stable during a batch.
    logits : Out stream of logits
        Logits of the tuned network, sample by sample.
    gradient : Out, `GradientWatch`, with `watched`
        Gradients of the cross entropy with respect to logits.
    clipped : Out(range(ranks + 1 + classes_per_cycle)), with the loss ``mse`` one more
        Logits and gradients clipped in the previous cycle.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, sum_width: int, watched: bool = False) -> None:
        self.mapping, self.batch, self.sum_width, self.watched = mapping, batch, sum_width, watched
        self.entries = mapping.classes * mapping.adapters
        self.memories = HeadMemories(mapping, batch, sum_width)
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
                "clipped": Out(range(mapping.ranks + 1 + mapping.classes_per_cycle + self.has_targets)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, forward, b_write = self.mapping, self.forward, self.b_write
        memories = self.memories
        m.submodules.b = b = ram(platform, memories.b, b_write.value.shape())
        m.submodules.h = h = ram(platform, memories.h, forward.hidden.shape())
        b_in = b.write_port()
        m.d.comb += [b_in.en.eq(b_write.enable), b_in.addr.eq(b_write.address), b_in.data.eq(b_write.value)]
        position = self._hidden(m, h)
        m.submodules.waiting = logit_fifo = fifo.SyncFIFOBuffered(
            width=len(Value.cast(self.logits.payload)), depth=logit_fifo_depth(mapping)
        )
        m.submodules.bases = bases = ram(platform, memories.bases)
        logit_clipped = self._logits(m, b, h, bases, position, logit_fifo)
        if self.has_targets:
            gradients, loss_clipped = self._targeted(m, logit_fifo)
        else:
            m.submodules.labels = labels = ram(platform, memories.labels)
            gradients, loss_clipped = self._labelled(m, labels, logit_fifo)
        dh_clipped = self._gradients(m, platform, b, h, gradients)
        m.d.sync += self.clipped.eq(sum(dh_clipped, Value.cast(logit_clipped)) + loss_clipped)
        probe(self, position=position)
        return m

    def _hidden(self, m: Module, h: memory.Memory) -> Signal:
        """Store hidden values; return the number stored in the batch."""
        forward, h_in = self.forward, h.write_port()
        position = Signal(range(self.batch * self.mapping.adapters + 1))
        m.d.comb += [h_in.en.eq(forward.hidden_valid), h_in.addr.eq(position), h_in.data.eq(forward.hidden)]
        with m.If(self.start):
            m.d.sync += position.eq(0)
        with m.Elif(forward.hidden_valid):
            m.d.sync += position.eq(position + 1)
        return position

    def _labelled(
        self, m: Module, labels: memory.Memory, logit_fifo: fifo.SyncFIFOBuffered | ClassHalves
    ) -> tuple[stream.Interface, Value | int]:
        """Cross entropy: logits go to the softmax and to `logits`. Returns gradients; none is clipped."""
        m.submodules.softmax = softmax = self._softmax()
        m.submodules.celoss = celoss = Celoss(CelossSpec())
        wiring.connect(m, softmax.o, celoss.i)
        logit = self.logits.payload.shape()(logit_fifo.r_data)
        taken = softmax.i.ready & (self.logits.ready | ~self.show)
        m.d.comb += [
            softmax.i.valid.eq(logit_fifo.r_rdy & (self.logits.ready | ~self.show)),
            softmax.i.payload.logit.eq(logit.logit),
            softmax.i.payload.last.eq(logit.last),
            self.logits.valid.eq(logit_fifo.r_rdy & softmax.i.ready & self.show),
            self.logits.payload.eq(logit),
            logit_fifo.r_en.eq(taken),
        ]
        self._labels(m, labels, celoss)
        if self.watched:
            gradients, watch = celoss.o, self.gradient
            m.d.comb += [
                watch.valid.eq(gradients.valid & gradients.ready),
                watch.gradient.eq(gradients.payload.gradient),
                watch.last.eq(gradients.payload.last),
            ]
        return celoss.o, 0

    def _softmax(self) -> Softmax | SoftmaxPair:
        return Softmax(SoftmaxSpec(classes=self.mapping.classes))

    def _targeted(self, m: Module, logit_fifo: fifo.SyncFIFOBuffered | ClassHalves) -> tuple[stream.Interface, Value]:
        """Squared error: a logit goes to `logits`, then to the loss. Returns gradients and a flag of clipping."""
        m.submodules.mseloss = loss = Mseloss(MselossSpec())
        logit, sent = self.logits.payload.shape()(logit_fifo.r_data), Signal()
        m.d.comb += [
            self.logits.valid.eq(logit_fifo.r_rdy & self.show & ~sent),
            self.logits.payload.eq(logit),
            loss.i.valid.eq(logit_fifo.r_rdy & (sent | ~self.show)),
            loss.i.payload.logit.eq(logit.logit),
            loss.i.payload.last.eq(logit.last),
            logit_fifo.r_en.eq(loss.i.valid & loss.i.ready),
        ]
        m.d.sync += sent.eq((sent | (self.logits.valid & self.logits.ready)) & ~logit_fifo.r_en)
        self._targets(m, loss)
        return loss.o, loss.o.valid & loss.o.ready & loss.o.payload.clipped

    def _targets(self, m: Module, loss: Mseloss) -> None:
        """Stream the values of the batch's samples from rows of the batch memory."""
        mapping, read = self.mapping, self.targets
        row = Signal(read.values.shape().size, reset_less=True)
        row_valid, row_arrives, over_row = Signal(), Signal(), Signal()
        lane, number = Signal(range(mapping.logits_per_row)), Signal(range(mapping.classes))
        last = number == mapping.classes - 1
        taken = loss.target.valid & loss.target.ready
        m.d.comb += [
            loss.target.valid.eq(row_valid),
            loss.target.payload.target.eq(row[: ACTIVATION.width]),
            over_row.eq(taken & (last | (lane == mapping.logits_per_row - 1))),
        ]
        m.d.sync += [
            row_arrives.eq(read.free & ~row_valid & ~row_arrives),
            row_valid.eq((row_valid & ~over_row) | row_arrives),
        ]
        with m.If(taken):
            m.d.sync += [row.eq(row >> ACTIVATION.width), lane.eq(Mux(over_row, 0, lane + 1))]
            m.d.sync += number.eq(Mux(last, 0, number + 1))
        with m.If(over_row):
            # the sample comes first in its rows of the batch memory
            m.d.sync += read.address.eq(read.address + Mux(last, mapping.sample_rows - mapping.logit_rows + 1, 1))
        with m.If(row_arrives):
            m.d.sync += row.eq(read.values.as_value())
        with m.If(self.start):
            first_row = self.batch * mapping.sample_rows
            m.d.sync += [
                read.address.eq(Mux(self.half, first_row, 0)),
                row_valid.eq(0),
                row_arrives.eq(0),
                lane.eq(0),
                number.eq(0),
            ]

    def _labels(self, m: Module, labels: memory.Memory, celoss: Celoss) -> None:
        """Stream the batch's labels."""
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
        self,
        m: Module,
        b: memory.Memory,
        h: memory.Memory,
        bases: memory.Memory,
        hidden_count: Value,
        logit_fifo: fifo.SyncFIFOBuffered,
    ) -> Value:
        """Add B h to the base logits, a class in a cycle for each adapter; return a flag of clipping.

        Longer than most: the state machine and its pipeline share the sample's counters.
        """
        mapping = self.mapping
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "total": exact_log2(ranks), "logit": SUM}
        pipeline = Pipeline(m, stages | {"rounded": RoundSaturate.LATENCY})
        # the FIFO's level, which decides on the next sample, then counts the last logit
        settle_cycles = pipeline.latency("issue", "rounded")
        count = range(self.batch + 1)
        base_count, hidden_required, sample = Signal(count), Signal.like(hidden_count), Signal(count)
        base_in, base_out, base_end = self._bases(m, bases, base_count)
        b_port, h_port = b.read_port(), h.read_port()
        entry, class_number, adapter = Signal(range(self.entries)), Signal(range(classes)), Signal(range(adapters))
        origin = Signal(range(self.batch * adapters + 1))
        base_row, pause = Signal(base_out.data.shape(), reset_less=True), Signal(range(settle_cycles))
        sample_begin, issue, end_of_adapters = Signal(), Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(Mux(issue, entry, self.b_read.address)),
            self.b_read.value.eq(b_port.data),
            h_port.addr.eq(origin + adapter),
            end_of_adapters.eq(adapter == adapters - 1),
        ]
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += [entry.eq(0), class_number.eq(0), adapter.eq(0), pause.eq(settle_cycles - 1)]
                level, limit = logit_fifo.level, logit_fifo.depth - 2 * classes
                has_room = level < limit if limit > 0 else level == 0
                with m.If((base_count != sample) & (hidden_count >= hidden_required) & has_room):
                    m.next = "RUN"
                    m.d.sync += base_row.eq(base_out.data)
                    m.d.comb += sample_begin.eq(1)
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [
                    entry.eq(entry + 1),
                    adapter.eq(Mux(end_of_adapters, 0, adapter + 1)),
                    class_number.eq(class_number + end_of_adapters),
                ]
                with m.If(end_of_adapters & (class_number == classes - 1)):
                    m.d.sync += [
                        sample.eq(sample + 1),
                        hidden_required.eq(hidden_required + adapters),
                        origin.eq(origin + adapters),
                    ]
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.next = "WAIT"
        products = [Signal(PRODUCT, name=f"logit_product{rank}", reset_less=True) for rank in range(ranks)]
        m.d.sync += [p.eq(b_port.data[r] * h_port.data[r]) for r, p in enumerate(products)]
        total = adder_tree(m, products, "logitd")
        step = pipeline.place("issue", issue, "logit_step").at("total")
        first = pipeline.place("issue", adapter == 0, "logit_first", reset_less=True).at("total")
        last = pipeline.place("issue", issue & end_of_adapters, "logit_last").at("total")
        final = pipeline.place("issue", class_number == classes - 1, "logit_final").at("rounded")
        logit = Signal(signed(max(len(total), PRODUCT.width) + adapters.bit_length() + 1), reset_less=True)
        with m.If(step):
            m.d.sync += logit.eq(Mux(first, base_row[: ACTIVATION.width].as_signed() << Q4_12.fraction, logit) + total)
            with m.If(first):
                m.d.sync += base_row.eq(base_row >> ACTIVATION.width)
        if mapping.logit_rows == 1:
            m.d.comb += base_out.addr.eq(sample)
        else:
            more = pipeline.place("issue", class_number != classes - 1, "logit_more").at("total")
            self._next_row(m, base_out, base_row, sample_begin, step & first, more)
            with m.If(self.start):
                m.d.sync += base_in.addr.eq(0)
        m.submodules.logit_rounding = rounding = RoundSaturate(len(logit), PRODUCT_FRACTION - Q8_16.fraction, Q8_16)
        valid = pipeline.place("total", last, "logit_valid").at("rounded")
        m.d.comb += [
            rounding.i.eq(logit),
            logit_fifo.w_en.eq(valid),
            logit_fifo.w_data.eq(Cat(rounding.o, final)),
        ]
        with m.If(base_end):
            m.d.sync += base_count.eq(base_count + 1)
        with m.If(self.start):
            m.d.sync += [base_count.eq(0), sample.eq(0), hidden_required.eq(adapters), origin.eq(0)]
        probe(self, sample=sample, base_count=base_count, hidden_required=hidden_required, settle_cycles=settle_cycles)
        probe(self, issue=issue, class_number=class_number, adapter=adapter, end_of_adapters=end_of_adapters)
        return rounding.clipped & valid

    def _bases(
        self, m: Module, bases: memory.Memory, base_count: Value
    ) -> tuple[memory.WritePort, memory.ReadPort, Value]:
        """Write base logits row by row; return the memory's ports, and a flag of a sample's last row."""
        forward, rows = self.forward, self.mapping.logit_rows
        base_in, base_out = bases.write_port(), bases.read_port()
        m.d.comb += [base_in.en.eq(forward.base_valid), base_in.data.eq(forward.base)]
        base_end = forward.base_valid
        if rows > 1:
            row = Signal(range(rows))
            base_end &= row == rows - 1
            with m.If(forward.base_valid):
                m.d.sync += [row.eq(Mux(base_end, 0, row + 1)), base_in.addr.eq(base_in.addr + 1)]
        else:
            m.d.comb += base_in.addr.eq(base_count)
        return base_in, base_out, base_end

    def _next_row(
        self,
        m: Module,
        base_out: memory.ReadPort,
        base_row: Signal,
        sample_begin: Value,
        value_taken: Value,
        more: Value,
    ) -> None:
        """Read rows of base logits: at the begin of a sample, and after each row with more classes to come."""
        lane, following_row = Signal(range(self.mapping.logits_per_row)), Signal()
        m.d.comb += following_row.eq(value_taken & more & (lane == self.mapping.logits_per_row - 1))
        with m.If(value_taken):
            m.d.sync += lane.eq(lane + 1)
        with m.If(following_row):
            m.d.sync += base_row.eq(base_out.data)
        with m.If(sample_begin | following_row):
            m.d.sync += [lane.eq(0), base_out.addr.eq(base_out.addr + 1)]
        with m.If(self.start):
            m.d.sync += base_out.addr.eq(0)

    def _gradients(
        self, m: Module, platform: object, b: memory.Memory, h: memory.Memory, loss_gradients: stream.Interface
    ) -> list[Value]:
        """Compute dh = B' g, rounded, and dB, the batch's sum of g h', a class a cycle.

        Longer than most: both share operands and counters. Returns a flag for each rank with a clipped dh.
        """
        mapping = self.mapping
        classes, adapters, ranks = mapping.classes, mapping.adapters, mapping.ranks
        m.submodules.db = db = ram(platform, self.memories.db, self.b_read.gradient.shape())
        m.submodules.dhs = dhs = ram(platform, self.memories.dh, self.gradients.value.shape())
        b_port, h_port, db_out, db_in = b.read_port(), h.read_port(), db.read_port(), db.write_port()
        dh_out, dh_in = dhs.read_port(), dhs.write_port()
        gradient_count, class_number, adapter = Signal(range(classes)), Signal(range(classes)), Signal(range(adapters))
        entry, origin = Signal(range(self.entries + adapters)), Signal(range(self.batch * adapters + 1))
        sample, issue, end_of_classes, first_sample = Signal(range(self.batch + 1)), Signal(), Signal(), Signal()
        m.d.comb += [
            b_port.addr.eq(entry),
            h_port.addr.eq(origin + adapter),
            db_out.addr.eq(Mux(issue, entry, self.b_read.address)),
            self.b_read.gradient.eq(db_out.data),
            end_of_classes.eq(class_number == classes - 1),
            first_sample.eq(sample == 0),
            dh_out.addr.eq(self.gradients.address),
            self.gradients.value.eq(dh_out.data),
        ]
        with m.FSM():
            with m.State("COLLECT"):
                m.d.comb += loss_gradients.ready.eq(1)
                with m.If(loss_gradients.valid):
                    m.d.sync += gradient_count.eq(gradient_count + 1)
                    with m.If(loss_gradients.payload.last):
                        m.d.sync += [gradient_count.eq(0), class_number.eq(0), adapter.eq(0), entry.eq(0)]
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [class_number.eq(class_number + 1), entry.eq(entry + adapters)]
                with m.If(end_of_classes):
                    m.d.sync += [class_number.eq(0), adapter.eq(adapter + 1), entry.eq(adapter + 1)]
                    with m.If(adapter == adapters - 1):
                        m.d.sync += [sample.eq(sample + 1), origin.eq(origin + adapters)]
                        m.next = "COLLECT"
        gradient = self._gradient(m, platform, loss_gradients, gradient_count, class_number)
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "sums": SUM, "rounded": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        dh_first = pipeline.place("issue", class_number == 0, "dh_first", reset_less=True).at("products")
        dh_last = pipeline.place("issue", issue & end_of_classes, "dh_last").at("products")
        db_step = pipeline.place("issue", issue, "db_step").at("products")
        db_address = pipeline.place("issue", entry, "db_position", reset_less=True).at("products")
        db_first = pipeline.place("issue", first_sample, "db_first", reset_less=True).at("products")
        clipped = []
        batch_sum = Signal.like(db_out.data, reset_less=True)
        m.d.sync += batch_sum.eq(db_out.data)
        db_sums = []
        dh_valid = pipeline.place("products", dh_last, "dh_valid").at("rounded")
        for rank in range(ranks):
            lower = Signal(GRADIENT_PRODUCT, name=f"lower{rank}", reset_less=True)
            outer = Signal(PRODUCT, name=f"outer{rank}", reset_less=True)
            width = GRADIENT_PRODUCT.width + classes.bit_length()
            dh_sum = Signal(signed(width), name=f"dh_sum{rank}", reset_less=True)
            m.d.sync += [
                lower.eq(b_port.data[rank] * gradient),
                outer.eq(h_port.data[rank] * gradient),
                dh_sum.eq(Mux(dh_first, 0, dh_sum) + lower),
            ]
            db_sums.append(Mux(db_first, 0, batch_sum[rank]) + outer)
            m.submodules[f"dh_rounding{rank}"] = rounding = RoundSaturate(len(dh_sum), Q4_12.fraction, Q4_12)
            m.d.comb += [rounding.i.eq(dh_sum), dh_in.data[rank].eq(rounding.o)]
            clipped.append(rounding.clipped & dh_valid)
        db_written = Signal.like(db_in.data, reset_less=True)
        m.d.sync += [db_written[rank].eq(db_sum) for rank, db_sum in enumerate(db_sums)]
        m.d.comb += [
            db_in.en.eq(pipeline.place("products", db_step, "db_write").at("sums")),
            db_in.addr.eq(pipeline.place("products", db_address, "db_address", reset_less=True).at("sums")),
            db_in.data.eq(db_written),
        ]
        dh_address, done_adapters = Signal(range(self.batch * adapters + 1)), Signal(range(adapters + 1))
        m.d.comb += [dh_in.en.eq(dh_valid), dh_in.addr.eq(dh_address)]
        with m.If(dh_valid):
            m.d.sync += [dh_address.eq(dh_address + 1), done_adapters.eq(done_adapters + 1)]
            with m.If(done_adapters == adapters - 1):
                m.d.sync += [done_adapters.eq(0), self.finished.eq(self.finished + 1)]
        with m.If(self.start):
            m.d.sync += [sample.eq(0), origin.eq(0), dh_address.eq(0), done_adapters.eq(0), self.finished.eq(0)]
        probe(self, dh_issue=issue, dh_class=class_number, dh_adapter=adapter, end_of_classes=end_of_classes)
        probe(self, dh_valid=dh_valid, done_adapters=done_adapters)
        return clipped

    def _gradient(
        self,
        m: Module,
        platform: object,
        loss_gradients: stream.Interface,
        gradient_count: Value,
        class_number: Value,
    ) -> Value:
        """Loss gradient of a class of the sample, a cycle after its number.

        Up to `lanes` gradients are in registers, more in a memory.
        """
        moves, classes = loss_gradients.valid & loss_gradients.ready, self.mapping.classes
        if classes > self.mapping.lanes:
            m.submodules.gradients = store = ram(platform, self.memories.gradients, PARAMETER)
            into, port = store.write_port(), store.read_port()
            m.d.comb += [
                into.en.eq(moves),
                into.addr.eq(gradient_count),
                into.data.eq(loss_gradients.payload.gradient),
                port.addr.eq(class_number),
            ]
            return port.data
        gradients = [Signal(PARAMETER, name=f"gradient{index}", reset_less=True) for index in range(classes)]
        with m.If(moves):
            for index, gradient in enumerate(gradients):
                with m.If(gradient_count == index):
                    m.d.sync += gradient.eq(loss_gradients.payload.gradient)
        chosen = Signal(PARAMETER, reset_less=True)
        m.d.sync += chosen.eq(Array(gradients)[class_number])
        return chosen
