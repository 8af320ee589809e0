"""RTL of `array_path`: multiplexers for rows and weights, the array, and routing of complete sums."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ....golden.stream.array.array_path import APART, ArrayPathSpec, TileKind
from ...ports import elements, layout, members, shape
from ...primitives.fifo import Fifo
from ...primitives.registers import replicas
from ...probe import probe
from .partial_sums import PartialSums
from .tile_array import TileArray

ORDERS = 4
"""Queue depth of tiles whose weights come ahead of their rows."""
_CHOICES = 4
"""Number of copies of the operand select register; each serves a slice of the lanes."""


class ArrayPath(wiring.Component):
    """Multiply rows by stationary tiles and route complete sums to a linear layer, scores or contexts.

    Accepts a row a cycle. The first slice of a row's sums leaves `spec.latency` cycles after the row's last term.
    """

    def __init__(self, spec: ArrayPathSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.array = array = TileArray(spec.array)
        m.submodules.partial_sums = sums = PartialSums(spec.partial_sums)
        order = layout(spec.streams()["order"])
        m.submodules.row_order = row_order = Fifo(order, ORDERS)
        m.submodules.weight_order = weight_order = Fifo(1, ORDERS)
        both = row_order.i.ready & weight_order.i.ready
        m.d.comb += [
            self.order.ready.eq(both),
            *(queue.i.valid.eq(self.order.valid & both) for queue in (row_order, weight_order)),
            row_order.i.payload.eq(self.order.payload),
            weight_order.i.payload.eq(self.order.payload.kind != TileKind.LINEAR),
        ]
        self._weights(m, array, weight_order)
        attention, ends = self._rows(m, array, row_order)
        tag = data.View(self._tag, array.o.payload.tag)
        m.d.comb += [
            array.o.ready.eq(1),
            sums.i.valid.eq(array.o.valid),
            sums.i.payload.sum.eq(array.o.payload.sum),
            *(getattr(sums.i.payload, name).eq(getattr(tag, name)) for name in ("row", "first", "last")),
        ]
        self._sums(m, sums, attention, ends)
        return m

    @property
    def _tag(self) -> data.StructLayout:
        return data.StructLayout({"row": shape(self.spec.partial_sums.row_number), "first": 1, "last": 1})

    def _weights(self, m: Module, array: TileArray, order: Fifo) -> None:
        spec = self.spec
        active, beat = Signal(name="loads"), Signal(range(spec.array.beats))
        *chosen, source = copies = replicas(3, "attention_tile")
        final = beat == spec.array.beats - 1
        taken = array.w.valid & array.w.ready
        lanes = spec.streams()["keys"].fields[0]
        both = zip(elements(self.keys.payload.weight, lanes), elements(self.weights.payload.weight, lanes), strict=True)
        weights = [Mux(chosen[lane * 2 // lanes.lanes], *pair) for lane, pair in enumerate(both)]
        m.d.comb += [
            array.w.valid.eq(active & Mux(source, self.keys.valid, self.weights.valid)),
            Value.cast(array.w.payload.weight).eq(Cat(weights)),
            self.keys.ready.eq(active & source & array.w.ready),
            self.weights.ready.eq(active & ~source & array.w.ready),
            order.o.ready.eq(~active | (taken & final)),
        ]
        with m.If(taken):
            m.d.sync += beat.eq(Mux(final, 0, beat + 1))
        with m.If(order.o.ready):
            m.d.sync += [active.eq(order.o.valid), *(flag.eq(order.o.payload) for flag in copies)]

    def _rows(self, m: Module, array: TileArray, order: Fifo) -> tuple[Signal, Signal]:
        """Pass a tile's rows to the array; returns two flags: attention gets the sums; a row's sums have left."""
        spec, word = self.spec, order.o.payload
        active, swap = Signal(name="passes"), Signal(reset_less=True)
        *contexts, terms_pass = replicas(_CHOICES + 1, "contexts")
        other = Signal(name="of_attention", reset_less=True)
        remaining, final = (
            Signal.like(word.rows, name="remaining", reset_less=True),
            Signal(name="final_row", reset_less=True),
        )
        used = Signal.like(word.used, name="used", reset_less=True)
        blank = Cat(lane >= used for lane in range(spec.lanes))
        attention, leaves, taken = Signal(name="for_attention"), Signal(name="leaves"), Signal(name="taken_row")
        # number of free rows in the partial sums, and a flag: at least one is free
        room, spare = Signal(range(spec.sums + 1), init=spec.sums), Signal(init=1)
        # this tile's sums have the same destination as the previous tile's sums
        alike = Signal(reset_less=True)
        linear_rows, terms, tag = self.rows, self.terms, data.View(self._tag, array.x.payload.tag)
        last = Mux(terms_pass, terms.payload.last, linear_rows.payload.last)
        query = Cat(terms.payload.query, Const(0, len(tag.row) - len(terms.payload.query) - 1), Const(1, 1))
        # each source has its own handshake, before the multiplexer, so only its own `last` is in the path
        may_pass, streams = Signal(), spec.streams()
        frees = [
            may_pass & chosen & (~source.payload.last | spare)
            for source, chosen in ((linear_rows, ~terms_pass), (terms, terms_pass))
        ]
        values = zip(
            elements(terms.payload.weight, streams["terms"].fields[0]),
            elements(linear_rows.payload.value, streams["rows"].fields[0]),
            strict=True,
        )
        of_attention, returns = word.kind != TileKind.LINEAR, self._returns(m, taken, order, word.rows)
        m.d.comb += [
            array.x.valid.eq((frees[0] & linear_rows.valid) | (frees[1] & terms.valid)),
            Value.cast(array.x.payload.value).eq(
                Cat(
                    Mux(blank[lane], 0, Mux(contexts[lane * _CHOICES // spec.lanes], *pair))
                    for lane, pair in enumerate(values)
                )
            ),
            array.x.payload.swap.eq(swap),
            tag.row.eq(Mux(terms_pass, query, linear_rows.payload.row)),
            tag.first.eq(Mux(terms_pass, terms.payload.first, linear_rows.payload.first)),
            tag.last.eq(last),
            *(source.ready.eq(free & array.x.ready) for source, free in zip((linear_rows, terms), frees, strict=True)),
            taken.eq(array.x.valid & array.x.ready),
            # timing: `array.x.ready` settles late in the cycle; the parentheses put it last
            order.o.ready.eq(~active | ((final & array.x.valid) & array.x.ready)),
        ]
        with m.If(taken):
            m.d.sync += [swap.eq(0), remaining.eq(remaining - 1), final.eq(remaining == 1)]
        with m.If(order.o.ready):
            m.d.sync += [active.eq(order.o.valid), swap.eq(1), remaining.eq(word.rows - 1), final.eq(word.rows == 1)]
            m.d.sync += [used.eq(word.used), other.eq(of_attention), alike.eq(of_attention == attention)]
            m.d.sync += may_pass.eq(order.o.valid & (of_attention == attention) & ~returns)
            m.d.sync += [flag.eq(word.kind == TileKind.CONTEXTS) for flag in (*contexts, terms_pass)]
        with m.Else():
            m.d.sync += alike.eq(alike | room[-1])
            m.d.sync += may_pass.eq(active & (alike | room[-1]) & (~swap | taken | ~returns))
        m.d.sync += room.eq(room + leaves - (taken & last))
        m.d.sync += spare.eq(Mux(taken & last, room > 1, room.any()) | leaves)
        with m.If(active & room[-1]):
            m.d.sync += attention.eq(other)
        probe(self, active=active, swap=swap, other=other, left=remaining, final=final, alike=alike, may_pass=may_pass)
        probe(self, attention=attention, taken=taken, room=room, spare=spare, tag=tag)
        return attention, leaves

    def _returns(self, m: Module, taken: Value, order: Fifo, rows: Value) -> Value:
        """High if `partial_sums` would still block the row number of a tile's first row in the next cycle.

        A row number returns after as many rows as the tile has, so it suffices to count rows.
        """
        recent = [Signal(name=f"recent{age}") for age in range(APART - 2)]
        # flag n: the tile is so short that a row number would return too early, n cycles after the last row
        few = [Signal(name=f"few{age}", reset_less=True) for age in range(APART - 1)]
        of_next = [(rows != 0) & (rows < APART - age) for age in range(APART - 1)]
        short = [Mux(order.o.ready, upcoming, flag) for upcoming, flag in zip(of_next, few, strict=True)]
        m.d.sync += [Cat(recent).eq(Cat(taken, recent)), Cat(few).eq(Cat(short))]
        probe(self, recent=recent, few=few)
        return Cat(passed & flag for passed, flag in zip((taken, *recent), short, strict=True)).any()

    def _sums(self, m: Module, sums: PartialSums, attention: Signal, leaves: Signal) -> None:
        spec, o = self.spec, sums.o
        contexts = attention & o.payload.row[-1]
        ports = ((self.sums, ~attention), (self.scores, attention & ~contexts), (self.contexts, contexts))
        for port, chosen in ports:
            m.d.comb += port.valid.eq(o.valid & chosen)
        width = spec.streams()["scores"].fields[0].format.width
        narrow = (
            Cat(o.payload.sum[lane][:width] for lane in range(spec.drain)) if spec.drain > 1 else o.payload.sum[:width]
        )
        m.d.comb += [
            o.ready.eq(Mux(contexts, self.contexts.ready, Mux(attention, self.scores.ready, self.sums.ready))),
            leaves.eq(o.valid & o.ready & (o.payload.part == spec.partial_sums.parts - 1)),
            self.sums.payload.eq(o.payload),
            Value.cast(self.scores.payload.score).eq(narrow),
            Value.cast(self.contexts.payload.sum).eq(narrow),
            self.contexts.payload.query.eq(o.payload.row),
            self.contexts.payload.part.eq(o.payload.part),
        ]
