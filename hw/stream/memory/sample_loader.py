"""RTL of `sample_loader`: gathers beats into chunks, and writes each chunk for both signs."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.axi.bus import BEAT
from ....golden.block import Field
from ....golden.fixed import Q8_16
from ....golden.stream.memory.sample_loader import UNIT, SampleLoaderSpec, Status
from ....golden.stream.memory.samples import ROW
from ....golden.stream.norms import Q11_16
from ...ports import elements, members
from ...probe import probe
from .chunk_line import ChunkLine


class SampleLoader(wiring.Component):
    """Load samples into the activation memory.

    For chunks of 16 values or more, accepts a beat a cycle. Writes a chunk a cycle, after the last beat of its unit.
    """

    def __init__(self, spec: SampleLoaderSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = self.operation.payload
        rows, base, stride, last = (
            Signal.like(getattr(job, field), name=name, reset_less=True)
            for field, name in (("rows", "rows"), ("base", "base"), ("stride", "stride"), ("features", "last_feature"))
        )
        wide, empty, begins = Signal(reset_less=True), Signal(reset_less=True), Signal()
        status = Signal(Status, reset_less=True)
        m.d.comb += self.done.payload.status.eq(status)
        gathered = self._gather(m, begins, rows, last)
        written = self._write(m, begins, rows, last, wide, base, stride)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.operation.ready.eq(1)
                m.d.sync += [
                    rows.eq(job.rows),
                    base.eq(job.base),
                    stride.eq(job.stride),
                    wide.eq(job.wide),
                ]
                m.d.sync += [
                    last.eq(job.features - 1),
                    empty.eq((job.rows == 0) | (job.features == 0)),
                ]
                with m.If(self.operation.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                beyond = (Cat(0, rows) > stride) | (rows > self.spec.sums // 2)
                m.d.sync += status.eq(Mux(empty, Status.EMPTY, Mux(beyond, Status.CAPACITY, Status.LOADED)))
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.next = "DONE"
                with m.If(status == Status.LOADED):
                    m.d.comb += begins.eq(1)
                    m.next = "LOAD"
            with m.State("LOAD"), m.If(gathered & written):
                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.valid.eq(1)
                with m.If(self.done.ready):
                    m.next = "IDLE"
        probe(self, fsm, rows=rows, last=last)
        return m

    def _gather(self, m: Module, begins: Value, rows: Signal, last: Signal) -> Value:
        """Collect the beats of a unit, of whole chunks; returns a flag: all beats of the job have arrived."""
        spec = self.spec
        count = spec.unit * Q8_16.width // (8 * BEAT)
        self._full, self._unit = Signal(name="full"), Signal(spec.unit * Q8_16.width, name="unit", reset_less=True)
        gathered = Signal((count - 1) * 8 * BEAT, reset_less=True)
        beat, units, tokens = Signal(range(count)), Signal.like(last, name="units"), Signal(len(rows))
        # with two units in a row, the second has only padding if the token ends in the first
        two = spec.unit == UNIT
        last_unit = Cat(1, last[exact_log2(ROW) :]) if two else last[exact_log2(ROW) :]
        ends = Signal(name="ends_token", reset_less=True)
        padding = ends & ~last[exact_log2(UNIT)] if two else Value.cast(0)
        final, takes = beat == count - 1, Signal(name="takes")
        data = Value.cast(self.beats.payload.data)
        more = Signal(name="more")
        m.d.comb += self.beats.ready.eq(more & (~final | padding | ~self._full))
        m.d.comb += takes.eq(self.beats.valid & self.beats.ready)
        # the gathered beats become the unit; not derived from `takes`, as both have a high fanout
        fills = self.beats.valid & more & final & ~padding & ~self._full
        with m.If(begins):
            m.d.sync += [tokens.eq(rows), more.eq(1), units.eq(last_unit), ends.eq(last_unit == 0)]
        with m.If(takes):
            m.d.sync += [gathered.eq(Cat(gathered, data)[8 * BEAT :]), beat.eq(Mux(final, 0, beat + 1))]
            with m.If(final):
                m.d.sync += [units.eq(Mux(ends, last_unit, units - 1)), tokens.eq(tokens - ends)]
                m.d.sync += [ends.eq(Mux(ends, last_unit == 0, units == 1)), more.eq(~ends | (tokens != 1))]
        with m.If(fills):
            m.d.sync += [self._full.eq(1), self._unit.eq(Cat(gathered, data))]
        probe(self, beat=beat, units=units, tokens=tokens, ends=ends, more=more)
        return ~more

    def _write(
        self, m: Module, begins: Value, rows: Signal, last: Signal, wide: Signal, base: Signal, stride: Signal
    ) -> Value:
        """Write the chunks of a unit, each for both signs; returns a flag: all chunks are written."""
        spec, write = self.spec, self.write.payload
        chunks, width = spec.unit // spec.columns, spec.columns * Q8_16.width
        m.submodules.line = line = ChunkLine(spec.layout)
        chunk, side, active = Signal(range(chunks)), Signal(), Signal()
        last_group = last[exact_log2(spec.columns) :]
        groups = Signal(len(last_group), name="groups", reset_less=True)
        plus, minus = (Signal(range(spec.sums), name=f"{name}_row", reset_less=True) for name in ("plus", "minus"))
        moves, ends_token = Signal(name="moves"), Signal()
        values = elements(self._unit[:width], Field("value", Q8_16, spec.columns))
        m.d.comb += [
            self.write.valid.eq(self._full),
            moves.eq(self.write.valid & self.write.ready & side),
            ends_token.eq(moves & (groups == 0)),
            line.start.eq(begins | ends_token),
            line.advance.eq(moves),
            line.wide.eq(wide),
            line.base.eq(base),
            line.stride.eq(stride),
            write.wide.eq(wide),
            write.part.eq(line.part),
            write.address.eq(line.line + Mux(side, minus, plus)),
            Value.cast(write.value).eq(
                Cat(Cat(value, value[-1].replicate(Q11_16.width - Q8_16.width)) for value in values)
            ),
        ]
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += side.eq(~side)
        with m.If(moves):
            m.d.sync += [groups.eq(groups - 1), chunk.eq(chunk + 1)]
            if chunks > 1:
                m.d.sync += self._unit.eq(self._unit >> width)
            with m.If((chunk == chunks - 1) | (groups == 0)):
                m.d.sync += [self._full.eq(0), chunk.eq(0)]
            with m.If(groups == 0):
                m.d.sync += [groups.eq(last_group), plus.eq(plus + 1), minus.eq(minus + 1)]
                m.d.sync += active.eq(plus != rows - 1)
        with m.If(begins):
            m.d.sync += [groups.eq(last_group), plus.eq(0), minus.eq(rows), active.eq(1)]
        probe(self, active=active, side=side, groups=groups, plus=plus)
        return ~active
