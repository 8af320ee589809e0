"""Reads of attention: rows of keys and values for tiles, and rows of queries, in the order of the array."""

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
    """Read the rows of tiles, one a cycle, phase behind phase without a gap.

    Of scores the tiles are a group of keys for each row of the memory that holds features of the head, then the next
    group. Of contexts they are the tiles of values for each group of features.

    Attributes
    ----------
    settings : In
        Of the operation.
    phase : In, stream
        Taken with the last read of the one before.
    o : Out, stream
        `keys_read` of the block.
    """

    def __init__(self, spec: AttentionSequencerSpec) -> None:
        self.spec = spec
        phase = stream.Signature(phase_layout(spec))
        reads = member(spec.streams()["keys_read"])
        super().__init__({"settings": In(settings_layout(spec)), "phase": In(phase), "o": reads})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, given = self.spec, self.phase.payload
        m.submodules.line = line = ChunkLine(spec.layout)
        block = Signal(phase_layout(spec), name="block", reset_less=True)
        active, step, take, final = Signal(), Signal(), Signal(), Signal()
        # where a line starts it is the next phase's: there may be none, and until it comes the line starts again
        fresh = Signal()
        row = Signal(range(spec.lanes), reset_less=True)
        key, tile, number = (
            Signal.like(like, name=name, reset_less=True)
            for name, like in (("key", block.keys), ("tile", block.keys), ("number", block.lines))
        )
        last_row, last_line, last_tile = Signal(), Signal(), Signal()
        # a cycle behind: they count in a tile's last row, and a tile has several
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
            # what is known late stands last
            final.eq((active & last_row & final_line & final_tile) & move),
            self.phase.ready.eq(~active | final),
            take.eq(self.phase.valid & self.phase.ready),
            line.stride.eq(self.settings.stride),
            # of scores a line is whole
            line.wide.eq(~Mux(fresh, given.contexts, block.contexts)),
            line.base.eq(Mux(fresh, given.loads, block.loads)),
            line.first_part.eq(Mux(fresh & given.contexts, given.part, 0)),
            fresh.eq(~active | final_tile),
            line.start.eq(~active | (step & last_row & final_line & (~block.contexts | final_tile))),
            line.advance.eq(step & last_row & (~block.contexts | final_tile)),
        ]
        m.d.sync += [final_line.eq(last_line), final_tile.eq(last_tile)]
        with m.If(take):
            m.d.sync += [Value.cast(block).eq(Value.cast(given)), row.eq(0), key.eq(0), tile.eq(0), number.eq(0)]
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
        """Give a bit for each part of a line that belongs to another head: of keys alone, which are whole lines."""
        parts = range(1, self.spec.layout.parts)
        before = Cat(*(block.part >= part for part in parts), 0)
        behind = Cat(0, *(block.last_part < part for part in parts))
        return Mux(block.contexts, 0, Mux(first_line, before, 0) | Mux(last_line, behind, 0))


class QueryReads(wiring.Component):
    """Read rows of queries, one a cycle, and tell from where the array's rows come, tile by tile.

    Attributes
    ----------
    settings : In
        Of the operation.
    phase : In, stream
        Taken with the last row, or tile, of the one before.
    o : Out, stream
        `rows_read` of the block.
    order : Out, stream
        `order` of the block, offered with the first row of a tile.
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
        spec, given = self.spec, self.phase.payload
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
        # the query whose own key is the first of the following tile, of the present one and of the first
        own, own_first = (
            Signal(signed(len(block.keys) + 2), name=name, reset_less=True) for name in ("own", "own_first")
        )
        next_first = Mux(self.settings.causal & ~own[-1], own, 0)
        next_own = own + Mux(block.contexts, spec.lanes, spec.columns)
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
            m.d.sync += [Value.cast(block).eq(Value.cast(given)), line.eq(given.rows), begins.eq(1)]
            m.d.sync += [tile.eq(0), number.eq(0), query.eq(0), first.eq(0)]
            begin = Mux(given.contexts, spec.lanes, spec.columns) - given.query
            m.d.sync += [own.eq(begin), own_first.eq(begin)]
        with m.Elif(step):
            m.d.sync += [query.eq(query + 1), begins.eq(last_query)]
            with m.If(last_query & block.contexts):
                m.d.sync += [tile.eq(Mux(last_tile, 0, tile + 1)), number.eq(number + last_tile)]
                m.d.sync += [first.eq(Mux(last_tile, 0, next_first)), own.eq(Mux(last_tile, own_first, next_own))]
            with m.Elif(last_query & ~last_line):
                m.d.sync += [number.eq(number + 1), line.eq(line + self.settings.stride), query.eq(first)]
            with m.Elif(last_query):
                m.d.sync += [number.eq(0), tile.eq(tile + 1), line.eq(block.rows)]
                m.d.sync += [query.eq(next_first), first.eq(next_first), own.eq(next_own)]
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
