"""RTL of `rotary`: loops over positions, tokens and chunks; the next table row loads while the current row is used."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.stream.attention import HALVES, ROTATION
from ....golden.stream.values.rotary import RotarySpec
from ...ports import elements, members, shape
from ...primitives.fifo import Fifo
from ...primitives.registers import data_register
from ...probe import probe
from .operand_reads import operand_reads
from .rotation.head_turn import HeadTurn
from .rotation.head_walk import HeadWalk

ROWS = 4
"""Queue depth of tokens that are read and not yet written."""


class Rotary(wiring.Component):
    """Rotate the heads of queries and keys, one operation at a time, position by position.

    Read, rotation and write of successive chunks overlap. All writes of a position finish before the next position
    begins.
    """

    def __init__(self, spec: RotarySpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        settings = Signal.like(self.operation.payload, reset_less=True)
        m.submodules.reader, m.submodules.writer, m.submodules.turn = reader, writer, turn = (
            HeadWalk(spec),
            HeadWalk(spec),
            HeadTurn(spec),
        )
        last, pairs = Signal.like(turn.last, reset_less=True), Signal.like(turn.pairs, reset_less=True)
        # these registers are stable before the first row begins
        m.d.sync += [
            last.eq((settings.width >> exact_log2(spec.columns)) - 1),
            pairs.eq((settings.width >> exact_log2(HALVES)) - 1),
        ]
        for part in (reader, writer, turn):
            m.d.comb += [
                part.heads.eq(settings.heads),
                part.key_heads.eq(settings.key_heads),
                part.last.eq(last),
            ]
        for part in (reader, writer):
            m.d.comb += [
                part.queries.eq(settings.queries),
                part.keys.eq(settings.keys),
                part.stride.eq(settings.stride),
            ]
        m.d.comb += turn.pairs.eq(pairs)
        self._settings = settings
        self._chunks(m, reader, writer, turn)
        self._states(m, reader, turn, *self._table(m, turn))
        return m

    def _chunks(self, m: Module, reader: HeadWalk, writer: HeadWalk, turn: HeadTurn) -> None:
        """Read and write the chunks of rows; the queue `_rows` has the rows that are read and not yet written."""
        m.submodules.rows = self._rows = rows = Fifo(shape(self.spec.row), ROWS)
        asked, present, self._owed = operand_reads(m, self.operands_read, self.operands, reader.active, turn.i.ready)
        values = elements(self.operands.payload.value, self.spec.streams()["operands"].fields[0])
        results = elements(self.write.payload.value, self.spec.streams()["write"].fields[-1])
        m.d.comb += [
            reader.advance.eq(asked),
            turn.i.valid.eq(present),
            *(to.eq(value) for to, value in zip(turn.i.payload, values, strict=True)),
            rows.o.ready.eq(~writer.active),
            writer.start.eq(rows.o.valid & ~writer.active),
            writer.row.eq(rows.o.payload),
            self.write.valid.eq(writer.active & turn.o.valid),
            turn.o.ready.eq(writer.active & self.write.ready),
            writer.advance.eq(self.write.valid & self.write.ready),
            *(to.eq(value) for to, value in zip(results, turn.o.payload, strict=True)),
        ]
        for port, walk in ((self.operands_read, reader), (self.write, writer)):
            m.d.comb += [port.payload.address.eq(walk.address), port.payload.part.eq(walk.part)]
        self._under_way = under_way = Signal(range(ROWS + 4))
        begun, ended = rows.i.valid & rows.i.ready, writer.advance & writer.final
        m.d.sync += under_way.eq(under_way + begun - ended)

    def _table(self, m: Module, turn: HeadTurn) -> tuple[Signal, Signal]:
        """Load table rows; returns two flags: the next row is loaded; a row begins, to be driven by the caller."""
        loaded, begin = Signal(), Signal()
        remaining, sine, index = Signal(self.spec.count.width), Signal(), Signal.like(turn.load_at)
        load, ends = Signal(), Signal()
        values = elements(self.turns.payload.plus, self.spec.streams()["turns"].fields[0])
        m.d.comb += [
            self.turns.ready.eq(remaining.any() & ~loaded),
            load.eq(self.turns.valid & self.turns.ready),
            ends.eq(index == turn.pairs),
            turn.load.eq(load),
            turn.load_sine.eq(sine),
            turn.load_at.eq(index),
            turn.load_value.eq(Cat(value[: ROTATION.width] for value in values)),
        ]
        with m.If(load):
            m.d.sync += index.eq(index + 1)
            with m.If(ends):
                m.d.sync += [index.eq(0), sine.eq(~sine), loaded.eq(sine), remaining.eq(remaining - sine)]
        with m.If(begin):
            m.d.sync += [loaded.eq(0), turn.bank.eq(~turn.bank)]
        self._left = remaining
        return loaded, begin

    def _states(self, m: Module, reader: HeadWalk, turn: HeadTurn, loaded: Signal, begin: Signal) -> None:
        settings, sentence = self._settings, self.sentences.payload
        position, item, free = Signal(self.spec.row.width), Signal(self.spec.row.width), Signal()
        row = Signal(self.spec.row.width)
        m.d.comb += [
            free.eq(self._rows.i.ready & ~reader.active),
            row.eq(sentence.first + position),
            reader.row.eq(row),
            self._rows.i.payload.eq(row),
        ]
        clipped = data_register(m, self.done.payload.clipped, "clipped")
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += [self.operation.ready.eq(1), turn.begin.eq(1)]
                m.d.sync += [settings.eq(self.operation.payload), position.eq(0)]
                with m.If(self.operation.valid):
                    m.next = "OPEN"
            with m.State("OPEN"):
                m.d.sync += self._left.eq(settings.longest)
                m.next = "TABLE"
            with m.State("TABLE"):
                m.d.comb += begin.eq(loaded)
                m.d.sync += item.eq(0)
                with m.If(loaded):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.sentences.ready.eq(free)
                with m.If(self.sentences.valid & free):
                    has = sentence.length > position
                    m.d.comb += [self._rows.i.valid.eq(has), reader.start.eq(has)]
                    m.d.sync += item.eq(item + 1)
                    with m.If(item == settings.sentences - 1):
                        m.next = "SETTLE"
            with m.State("SETTLE"), m.If(self._under_way == 0):
                m.d.sync += [position.eq(position + 1), clipped.eq(turn.clipped)]
                m.next = "TABLE"
                with m.If(position == settings.longest - 1):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.valid.eq(1)
                with m.If(self.done.ready):
                    m.next = "IDLE"
        probe(self, fsm)
