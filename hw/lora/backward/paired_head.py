"""Logit head of a wide array: two classes a cycle, one of each half, without a pause between samples."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal, Value, signed
from amaranth.lib import memory, stream
from amaranth.utils import exact_log2

from ....golden.fixed import Q4_12, Q8_16
from ....golden.lora.memories import half_fifo_depth
from ....golden.nn.arithmetic.forward import PRODUCT_FRACTION
from ....golden.nn.softmax import SoftmaxSpec
from ...nn.interfaces import ACTIVATION, PARAMETER, PRODUCT
from ...primitives.adder_tree import adder_tree
from ...primitives.pipeline import Pipeline, delayed
from ...primitives.ram import ram
from ...primitives.rounding import RoundSaturate
from .class_halves import ClassHalves
from .logit_head import GRADIENT_PRODUCT, MULTIPLY, READ, SUM, LogitHead
from .softmax_pair import SoftmaxPair

LEVEL = 2
"""Cycles from a write to the FIFO's level."""


class PairedLogitHead(LogitHead):
    """`LogitHead` with half of the cycles per sample; needs at least 8 entries of B in each half.

    B and its gradient have a memory for each half of the classes. Two softmaxes take alternate samples. A sample's loss
    gradients are collected while the previous sample's are used.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, memories = self.mapping, self.memories
        self._half = -(-mapping.classes // 2)
        self._entries = self._half * mapping.adapters
        banks = [ram(platform, memories.b, self.b_write.value.shape()) for _ in range(2)]
        m.submodules.b_lower, m.submodules.b_upper = banks
        of_upper, entry = self._bank(self.b_write.address)
        for number, bank in enumerate(banks):
            port = bank.write_port()
            m.d.comb += [
                port.en.eq(self.b_write.enable & (of_upper == number)),
                port.addr.eq(entry),
                port.data.eq(self.b_write.value),
            ]
        m.submodules.h = h = ram(platform, memories.h, self.forward.hidden.shape())
        hidden_count = self._hidden(m, h)
        m.submodules.bases = bases = ram(platform, memories.bases)
        latency = READ + MULTIPLY + exact_log2(mapping.ranks) + SUM + RoundSaturate.LATENCY
        # a sample's logits and the logits in flight
        m.submodules.waiting = waiting = ClassHalves(half_fifo_depth(mapping), self._half + latency + LEVEL)
        logit_clipped = self._paired_logits(m, banks, h, bases, hidden_count, waiting)
        if self.has_targets:
            gradients, loss_clipped = self._targeted(m, waiting)
        else:
            m.submodules.labels = labels = ram(platform, memories.labels)
            gradients, loss_clipped = self._labelled(m, labels, waiting)
        dh_clipped = self._paired_gradients(m, platform, banks, h, gradients)
        m.d.sync += self.clipped.eq(sum((*logit_clipped, *dh_clipped[1:]), Value.cast(dh_clipped[0])) + loss_clipped)
        return m

    def _bank(self, entry: Value) -> tuple[Value, Value]:
        """Half of the classes of an entry of B, and its address in the half's memory."""
        upper = entry >= self._entries
        return upper, (entry - Mux(upper, self._entries, 0))[: len(entry)]

    def _softmax(self) -> SoftmaxPair:
        return SoftmaxPair(SoftmaxSpec(classes=self.mapping.classes))

    def _paired_logits(
        self,
        m: Module,
        banks: list[memory.Memory],
        h: memory.Memory,
        bases: memory.Memory,
        hidden_count: Value,
        waiting: ClassHalves,
    ) -> list[Value]:
        """Add B h to the base logits, a class of each half in a cycle for each adapter; return flags of clipped logits.

        Longer than most: the state machine and its pipeline share the sample's counters.
        """
        mapping, half = self.mapping, self._half
        adapters, ranks = mapping.adapters, mapping.ranks
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "total": exact_log2(ranks), "logit": SUM}
        pipeline = Pipeline(m, stages | {"rounded": RoundSaturate.LATENCY})
        count = range(self.batch + 1)
        base_count, base_taken, sample = (Signal(count, name=name) for name in ("base_count", "base_taken", "sample"))
        hidden_required, origin = Signal.like(hidden_count), Signal(range(self.batch * adapters + 1))
        base_out, base_end = self._bases(m, bases, base_count)[1:]
        b_ports, h_port = [bank.read_port() for bank in banks], h.read_port()
        entry, class_number, adapter = (
            Signal(range(most), name=name)
            for name, most in (("entry", self._entries), ("class_number", half), ("adapter", adapters))
        )
        begin, issue, end_of_adapters = Signal(), Signal(), Signal()
        read_upper, read_entry = self._bank(self.b_read.address)
        value_upper = delayed(m, read_upper, READ, "value_upper", reset_less=True)
        m.d.comb += [
            *(port.addr.eq(Mux(issue, entry, read_entry)) for port in b_ports),
            self.b_read.value.eq(Mux(value_upper, b_ports[1].data.as_value(), b_ports[0].data.as_value())),
            h_port.addr.eq(origin + adapter),
            end_of_adapters.eq(adapter == adapters - 1),
        ]
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += [entry.eq(0), class_number.eq(0), adapter.eq(0)]
                with m.If((base_count != sample) & (hidden_count >= hidden_required) & waiting.room):
                    m.d.comb += begin.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [
                    entry.eq(entry + 1),
                    adapter.eq(Mux(end_of_adapters, 0, adapter + 1)),
                    class_number.eq(class_number + end_of_adapters),
                ]
                with m.If(end_of_adapters & (class_number == half - 1)):
                    m.d.sync += [
                        sample.eq(sample + 1),
                        hidden_required.eq(hidden_required + adapters),
                        origin.eq(origin + adapters),
                    ]
                    m.next = "WAIT"
        base_row = Signal(base_out.data.shape(), reset_less=True)
        step = pipeline.place("issue", issue, "logit_step").at("total")
        first = pipeline.place("issue", adapter == 0, "logit_first", reset_less=True).at("total")
        last = pipeline.place("issue", issue & end_of_adapters, "logit_last").at("total")
        with m.If(step & first):
            m.d.sync += base_row.eq(base_row >> ACTIVATION.width)
        # a cycle before the sample's first sum
        row_begins = pipeline.place("issue", begin, "row_begins").at("total")
        m.d.comb += base_out.addr.eq(base_taken)
        with m.If(row_begins):
            m.d.sync += [base_row.eq(base_out.data), base_taken.eq(base_taken + 1)]
        valid = pipeline.place("total", last, "logit_valid").at("rounded")
        m.d.comb += waiting.w_en.eq(valid)
        clipped = []
        for number, port in enumerate(b_ports):
            size = half if number == 0 else mapping.classes // 2
            ends = pipeline.place("issue", class_number == size - 1, f"ends{number}", reset_less=True).at("rounded")
            products = [Signal(PRODUCT, name=f"logit_product{number}_{rank}", reset_less=True) for rank in range(ranks)]
            m.d.sync += [p.eq(port.data[r] * h_port.data[r]) for r, p in enumerate(products)]
            total = adder_tree(m, products, f"logitd{number}_")
            width = max(len(total), PRODUCT.width) + adapters.bit_length() + 1
            logit = Signal(signed(width), name=f"logit{number}", reset_less=True)
            base = base_row[number * half * ACTIVATION.width :][: ACTIVATION.width].as_signed()
            with m.If(step):
                m.d.sync += logit.eq(Mux(first, base << Q4_12.fraction, logit) + total)
            rounding = RoundSaturate(len(logit), PRODUCT_FRACTION - Q8_16.fraction, Q8_16)
            m.submodules[f"logit_rounding{number}"] = rounding
            m.d.comb += [rounding.i.eq(logit), waiting.w_data[number].eq(rounding.o), waiting.w_ends[number].eq(ends)]
            clipped.append(rounding.clipped & valid)
        has_upper = pipeline.place("issue", class_number < mapping.classes // 2, "has_upper").at("rounded")
        m.d.comb += waiting.w_upper.eq(has_upper)
        with m.If(base_end):
            m.d.sync += base_count.eq(base_count + 1)
        with m.If(self.start):
            m.d.sync += [*(each.eq(0) for each in (base_count, base_taken, sample, origin))]
            m.d.sync += hidden_required.eq(adapters)
        return [clipped[0], clipped[1] & has_upper]

    def _paired_gradients(
        self,
        m: Module,
        platform: object,
        banks: list[memory.Memory],
        h: memory.Memory,
        loss_gradients: stream.Interface,
    ) -> list[Value]:
        """Compute dh = B' g, rounded, and dB, the batch's sum of g h', two classes a cycle.

        Longer than most: both share operands and counters. Returns a flag for each rank with a clipped dh.
        """
        mapping, half = self.mapping, self._half
        adapters, ranks = mapping.adapters, mapping.ranks
        gradient_shape = self.b_read.gradient.shape()
        dbs = [ram(platform, self.memories.db, gradient_shape) for _ in range(2)]
        m.submodules.db_lower, m.submodules.db_upper = dbs
        m.submodules.dhs = dhs = ram(platform, self.memories.dh, self.gradients.value.shape())
        b_ports, h_port = [bank.read_port() for bank in banks], h.read_port()
        db_outs, db_ins = [db.read_port() for db in dbs], [db.write_port() for db in dbs]
        dh_out, dh_in = dhs.read_port(), dhs.write_port()
        class_number, adapter = Signal(range(half)), Signal(range(adapters))
        entry, origin = Signal(range(self._entries + adapters)), Signal(range(self.batch * adapters + 1))
        sample, issue, end_of_classes = Signal(range(self.batch + 1)), Signal(), Signal()
        read_upper, read_entry = self._bank(self.b_read.address)
        gradient_upper = delayed(m, read_upper, READ, "gradient_upper", reset_less=True)
        m.d.comb += [
            *(port.addr.eq(entry) for port in b_ports),
            h_port.addr.eq(origin + adapter),
            *(port.addr.eq(Mux(issue, entry, read_entry)) for port in db_outs),
            self.b_read.gradient.eq(Mux(gradient_upper, *(port.data.as_value() for port in reversed(db_outs)))),
            end_of_classes.eq(class_number == half - 1),
            dh_out.addr.eq(self.gradients.address),
            self.gradients.value.eq(dh_out.data),
        ]
        begin = Signal()
        chosen, collected = self._collect(m, loss_gradients, begin, class_number)
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += [class_number.eq(0), adapter.eq(0), entry.eq(0)]
                with m.If(collected):
                    m.d.comb += begin.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += issue.eq(1)
                m.d.sync += [class_number.eq(class_number + 1), entry.eq(entry + adapters)]
                with m.If(end_of_classes):
                    m.d.sync += [class_number.eq(0), adapter.eq(adapter + 1), entry.eq(adapter + 1)]
                    with m.If(adapter == adapters - 1):
                        m.d.sync += [sample.eq(sample + 1), origin.eq(origin + adapters)]
                        m.next = "WAIT"
        stages = {"issue": 0, "operands": READ, "products": MULTIPLY, "pairs": SUM, "sums": SUM}
        pipeline = Pipeline(m, stages | {"rounded": RoundSaturate.LATENCY})
        dh_first = pipeline.place("issue", class_number == 0, "dh_first", reset_less=True).at("pairs")
        dh_valid = pipeline.place("issue", issue & end_of_classes, "dh_valid").at("rounded")
        db_first = pipeline.place("issue", sample == 0, "db_first", reset_less=True).at("products")
        # a gradient of B is written a cycle after its product
        db_write = pipeline.place("issue", issue, "db_write").at("pairs")
        db_address = pipeline.place("issue", entry, "db_address", reset_less=True).at("pairs")
        clipped = []
        for rank in range(ranks):
            lowers = [Signal(GRADIENT_PRODUCT, name=f"lower{number}_{rank}", reset_less=True) for number in range(2)]
            both = Signal(signed(GRADIENT_PRODUCT.width + 1), name=f"both{rank}", reset_less=True)
            width = GRADIENT_PRODUCT.width + mapping.classes.bit_length()
            dh_sum = Signal(signed(width), name=f"dh_sum{rank}", reset_less=True)
            m.d.sync += [
                *(each.eq(port.data[rank] * g) for each, port, g in zip(lowers, b_ports, chosen, strict=True)),
                both.eq(lowers[0] + lowers[1]),
                dh_sum.eq(Mux(dh_first, 0, dh_sum) + both),
            ]
            m.submodules[f"dh_rounding{rank}"] = rounding = RoundSaturate(len(dh_sum), Q4_12.fraction, Q4_12)
            m.d.comb += [rounding.i.eq(dh_sum), dh_in.data[rank].eq(rounding.o)]
            clipped.append(rounding.clipped & dh_valid)
        for number, (db_out, db_in) in enumerate(zip(db_outs, db_ins, strict=True)):
            batch_sum = Signal(gradient_shape, name=f"batch_sum{number}", reset_less=True)
            db_sum = Signal(gradient_shape, name=f"db_sum{number}", reset_less=True)
            m.d.sync += batch_sum.eq(db_out.data)
            for rank in range(ranks):
                outer = Signal(PRODUCT, name=f"outer{number}_{rank}", reset_less=True)
                m.d.sync += outer.eq(h_port.data[rank] * chosen[number])
                m.d.sync += db_sum[rank].eq(Mux(db_first, 0, batch_sum[rank]) + outer)
            m.d.comb += [db_in.en.eq(db_write), db_in.addr.eq(db_address), db_in.data.eq(db_sum)]
        dh_address, done_adapters = Signal(range(self.batch * adapters + 1)), Signal(range(adapters + 1))
        m.d.comb += [dh_in.en.eq(dh_valid), dh_in.addr.eq(dh_address)]
        with m.If(dh_valid):
            m.d.sync += [dh_address.eq(dh_address + 1), done_adapters.eq(done_adapters + 1)]
            with m.If(done_adapters == adapters - 1):
                m.d.sync += [done_adapters.eq(0), self.finished.eq(self.finished + 1)]
        with m.If(self.start):
            m.d.sync += [*(each.eq(0) for each in (sample, origin, dh_address, done_adapters, self.finished))]
        return clipped

    def _collect(
        self, m: Module, loss_gradients: stream.Interface, begin: Value, class_number: Value
    ) -> tuple[list[Value], Value]:
        """Collect a sample's loss gradients, and hold the previous sample's from `begin` on.

        Returns the gradients of a class of each half, a cycle after its number, and whether a sample is complete.
        """
        classes, half = self.mapping.classes, self._half
        arriving, held = (
            [Signal(PARAMETER, name=f"{name}{number}", reset_less=True) for number in range(classes)]
            for name in ("arriving", "held")
        )
        count, complete = Signal(range(classes)), Signal()
        moves = loss_gradients.valid & loss_gradients.ready
        m.d.comb += loss_gradients.ready.eq(~complete)
        with m.If(moves):
            last = loss_gradients.payload.last
            m.d.sync += [count.eq(Mux(last, 0, count + 1)), complete.eq(last)]
            for number, gradient in enumerate(arriving):
                with m.If(count == number):
                    m.d.sync += gradient.eq(loss_gradients.payload.gradient)
        with m.If(begin):
            m.d.sync += [complete.eq(0), *(into.eq(value) for into, value in zip(held, arriving, strict=True))]
        selected: list[Value] = []
        for number, half_held in enumerate((held[:half], held[half:])):
            chosen = Signal(PARAMETER, name=f"chosen{number}", reset_less=True)
            value = Array(half_held)[class_number]
            m.d.sync += chosen.eq(value if len(half_held) == half else Mux(class_number == half - 1, 0, value))
            selected.append(chosen)
        return selected, complete
