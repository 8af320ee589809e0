"""Memory reads of attention: keys, values and queries."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from ....golden.stream.array.array_path import TileKind
from ....golden.stream.softmax.attention_sequencer import AttentionSequencerSpec
from ...ports import member
from ...primitives.registers import data_register
from ...probe import probe
from ..memory.chunk_line import ChunkLine
from .attention_blocks import phase_layout, settings_layout


class KeyReads(wiring.Component):
    """Read the rows of tiles, a row a cycle, without a gap between phases.

    For scores, a group of keys forms a tile for each memory row with features of the head; then the next group follows.
    For contexts, the values of each feature group form tiles, group after group.

    Attributes
    ----------
    settings : In
        Settings of the operation.
    phase : In, stream
        Phases, each accepted with the previous phase's last read.
    o : Out, stream
        `keys_read` of `AttentionSequencer`.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        phase = stream.Signature(phase_layout(spec))
        reads = member(spec.streams()["keys_read"])
        super().__init__({"settings": In(settings_layout(spec)), "phase": In(phase), "o": reads})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, phase = self.spec, self.phase.payload
        m.submodules.line = line = ChunkLine(spec.layout)
        block = Signal(phase_layout(spec), name="block", reset_less=True)
        active, step, take, final = Signal(), Signal(), Signal(), Signal()
        # the line starts at the next phase's address, and repeats the start until a phase arrives
        fresh = Signal()
        row = Signal(range(spec.lanes), reset_less=True)
        key, tile, number = (
            Signal.like(like, name=name, reset_less=True)
            for name, like in (("key", block.keys), ("tile", block.keys), ("number", block.lines))
        )
        last_row, last_line, last_tile = Signal(), Signal(), Signal()
        # may be registers, as they are used only in a tile's last row, and a tile has several rows
        final_line, final_tile = Signal(), Signal()
        lanes, columns = (exact_log2(size) for size in (spec.lanes, spec.columns))
        begin, following = (
            Mux(block.contexts, Cat(Const(0, lanes), of), Cat(Const(0, columns), of)) for of in (tile, tile + 1)
        )
        move = ~self.o.valid | self.o.ready
        m.d.comb += [
            step.eq(active & move),
            last_row.eq(row == Mux(block.contexts, spec.lanes - 1, spec.columns - 1)),
            last_line.eq(number == Mux(block.contexts, self.settings.groups, block.lines)),
            last_tile.eq(tile == Mux(block.contexts, block.keys[lanes:], block.keys[columns:])),
            # timing: `move` settles late in the cycle; the parentheses put it last
            final.eq((active & last_row & final_line & final_tile) & move),
            self.phase.ready.eq(~active | final),
            take.eq(self.phase.valid & self.phase.ready),
            line.stride.eq(self.settings.stride),
            # for scores, keys are read as whole rows
            line.wide.eq(~Mux(fresh, phase.contexts, block.contexts)),
            line.base.eq(Mux(fresh, phase.loads, block.loads)),
            line.first_part.eq(Mux(fresh & phase.contexts, phase.part, 0)),
            fresh.eq(~active | final_tile),
            line.start.eq(~active | (step & last_row & final_line & (~block.contexts | final_tile))),
            line.advance.eq(step & last_row & (~block.contexts | final_tile)),
        ]
        m.d.sync += [final_line.eq(last_line), final_tile.eq(last_tile)]
        with m.If(take):
            m.d.sync += [Value.cast(block).eq(Value.cast(phase)), row.eq(0), key.eq(0), tile.eq(0), number.eq(0)]
        with m.Elif(step):
            m.d.sync += [row.eq(row + 1), key.eq(key + (key != block.keys))]
            with m.If(last_row):
                m.d.sync += row.eq(0)
                with m.If(~block.contexts):
                    m.d.sync += [number.eq(Mux(final_line, 0, number + 1)), tile.eq(tile + final_line)]
                    m.d.sync += key.eq(Mux(final_line, following, begin))
                with m.Else():
                    m.d.sync += [number.eq(number + final_tile), tile.eq(Mux(final_tile, 0, tile + 1))]
                    m.d.sync += key.eq(Mux(final_tile, 0, following))
        m.d.sync += active.eq(take | (active & ~final))
        read = data_register(m, self.o.payload, "read")
        with m.If(move):
            m.d.sync += [
                self.o.valid.eq(active),
                read.address.eq(line.line + key),
                read.turn.eq(~block.contexts),
                read.part.eq(line.part),
                Value.cast(read.zero).eq(self._zero(block, number == 0, last_line)),
            ]
        probe(self, active=active, block=block, row=row)
        return m

    def _zero(self, block: Any, first_line: Value, last_line: Value) -> Value:
        """Mask of the parts of a row that belong to other heads; 0 for values, as only keys are read as whole rows."""
        parts = range(1, self.spec.layout.parts)
        before = Cat(*(block.part >= part for part in parts), 0)
        behind = Cat(0, *(block.last_part < part for part in parts))
        return Mux(block.contexts, 0, Mux(first_line, before, 0) | Mux(last_line, behind, 0))


class QueryReads(wiring.Component):
    """Read query rows, a row a cycle, and announce to the array where each tile's rows come from.

    Attributes
    ----------
    settings : In
        Settings of the operation.
    phase : In, stream
        Phases, each accepted with the previous phase's last row or tile.
    o : Out, stream
        `rows_read` of `AttentionSequencer`.
    order : Out, stream
        `order` of `AttentionSequencer`, offered with the first row of a tile.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        phase = stream.Signature(phase_layout(spec))
        streams = spec.streams()
        super().__init__(
            {
                "settings": In(settings_layout(spec)),
                "phase": In(phase),
                "o": member(streams["rows_read"]),
                "order": member(streams["order"]),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, phase = self.spec, self.phase.payload
        block = Signal(phase_layout(spec), name="block", reset_less=True)
        active, step, take, final = Signal(), Signal(), Signal(), Signal()
        tile, number, query, first, line = (
            Signal.like(like, name=name, reset_less=True)
            for name, like in (
                ("tile", block.keys),
                ("number", block.lines),
                ("query", block.queries),
                ("first", block.queries),
                ("line", block.rows),
            )
        )
        begins, last_query, last_line, last_tile = Signal(reset_less=True), Signal(), Signal(), Signal()
        lanes, columns = (exact_log2(size) for size in (spec.lanes, spec.columns))
        # causal diagonal: index of the query at the next tile's first key; its value at the first tile
        diagonal, origin = (
            Signal(signed(len(block.keys) + 2), name=name, reset_less=True) for name in ("diagonal", "origin")
        )
        next_first = Mux(self.settings.causal & ~diagonal[-1], diagonal, 0)
        moved = diagonal + Mux(block.contexts, spec.lanes, spec.columns)
        move, order_moves = (~port.valid | port.ready for port in (self.o, self.order))
        m.d.comb += [
            step.eq(active & Mux(block.contexts, order_moves, move & (~begins | order_moves))),
            last_query.eq(block.contexts | (query == block.queries)),
            last_line.eq(number == Mux(block.contexts, self.settings.groups, block.lines)),
            last_tile.eq(tile == Mux(block.contexts, block.keys[lanes:], block.keys[columns:])),
            final.eq(step & last_query & last_line & last_tile),
            self.phase.ready.eq(~active | final),
            take.eq(self.phase.valid & self.phase.ready),
        ]
        with m.If(take):
            m.d.sync += [Value.cast(block).eq(Value.cast(phase)), line.eq(phase.rows), begins.eq(1)]
            m.d.sync += [tile.eq(0), number.eq(0), query.eq(0), first.eq(0)]
            begin = Mux(phase.contexts, spec.lanes, spec.columns) - phase.query
            m.d.sync += [diagonal.eq(begin), origin.eq(begin)]
        with m.Elif(step):
            m.d.sync += [query.eq(query + 1), begins.eq(last_query)]
            with m.If(last_query & block.contexts):
                m.d.sync += [tile.eq(Mux(last_tile, 0, tile + 1)), number.eq(number + last_tile)]
                m.d.sync += [first.eq(Mux(last_tile, 0, next_first)), diagonal.eq(Mux(last_tile, origin, moved))]
            with m.Elif(last_query & ~last_line):
                m.d.sync += [number.eq(number + 1), line.eq(line + self.settings.stride), query.eq(first)]
            with m.Elif(last_query):
                m.d.sync += [number.eq(0), tile.eq(tile + 1), line.eq(block.rows)]
                m.d.sync += [query.eq(next_first), first.eq(next_first), diagonal.eq(moved)]
        m.d.sync += active.eq(take | (active & ~final))
        read, tile_order = data_register(m, self.o.payload, "read"), data_register(m, self.order.payload, "tile_order")
        with m.If(move):
            m.d.sync += [
                self.o.valid.eq(step & ~block.contexts),
                read.address.eq(line + query),
                read.row.eq(query),
                read.first.eq(number == 0),
                read.last.eq(last_line),
            ]
        with m.If(order_moves):
            m.d.sync += [
                self.order.valid.eq(step & begins),
                tile_order.kind.eq(Mux(block.contexts, TileKind.CONTEXTS, TileKind.SCORES)),
                tile_order.rows.eq(block.queries - first + 1),
            ]
        return m
