"""RTL of `linear_sequencer`: four counters, the innermost of rows, and a line of the memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.stream.array.linear_sequencer import LinearSequencerSpec
from ...ports import members
from ...probe import probe


class LinearSequencer(wiring.Component):
    """A read a cycle, from the third cycle behind an operation on; a tile's word no later than its first read."""

    def __init__(self, spec: LinearSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, given, read = self.spec, self.operation.payload, self.rows_read.payload
        settings = Signal.like(given, reset_less=True)
        active = Signal()
        features = len(given.inputs)
        tiles = Signal(features - exact_log2(spec.lanes), reset_less=True)
        groups = Signal(features - exact_log2(spec.columns), reset_less=True)
        # of the layer's tiles and groups the last one: 0 of a layer that has one alone
        last_tile, last_group = (
            (given.inputs - 1) >> exact_log2(spec.lanes),
            (given.outputs - 1) >> exact_log2(spec.columns),
        )
        tile, line = Signal.like(tiles, reset_less=True), Signal.like(given.source, reset_less=True)
        row, minus = Signal.like(given.rows, reset_less=True), Signal(reset_less=True)
        ends = Signal.like(given.rows, reset_less=True)
        first, ahead = Signal(reset_less=True), Signal()
        # lanes of the layer's last tile; the next word is of that one: behind a first read it is one further
        filled = Signal.like(self.order.payload.used, reset_less=True)
        final_row, over, final_tile, final = Signal(), Signal(), Signal(), Signal()
        of_last = Mux(first | ~minus, final_tile, Mux(final_tile, 0, tile + 1) == tiles)
        m.d.comb += [
            self.operation.ready.eq(~active),
            final_row.eq(row == ends),
            over.eq(minus & final_row),
            final_tile.eq(tile == tiles),
            final.eq(minus & final_tile & (groups == 0)),
            self.order.valid.eq(active & ~ahead & (first | ~final)),
            self.order.payload.rows.eq(settings.rows),
            self.order.payload.used.eq(Mux(of_last, filled, spec.lanes)),
            self.rows_read.valid.eq(active & (ahead | ~first)),
            read.address.eq(line + row),
            read.row.eq(row),
            read.first.eq(tile == 0),
            read.last.eq(final_tile),
        ]
        taken = self.rows_read.valid & self.rows_read.ready
        m.d.sync += ahead.eq((ahead & ~(taken & first)) | (self.order.valid & self.order.ready))
        with m.If(~active):
            m.d.sync += filled.eq(((given.inputs - 1) & (spec.lanes - 1)) + 1)
            m.d.sync += [settings.eq(given), active.eq(self.operation.valid), first.eq(1), ends.eq(given.rows - 1)]
            m.d.sync += [tiles.eq(last_tile), groups.eq(last_group), tile.eq(0), line.eq(given.source)]
            m.d.sync += [row.eq(0), minus.eq(0)]
        with m.Elif(taken):
            m.d.sync += [first.eq(final_row), row.eq(row + 1)]
            # side by side, as it is known late that a read is taken
            with m.If(final_row):
                m.d.sync += [minus.eq(~minus), ends.eq(ends + settings.rows)]
            with m.If(over):
                m.d.sync += [row.eq(0), ends.eq(settings.rows - 1)]
                m.d.sync += [tile.eq(tile + 1), line.eq(line + settings.stride)]
            with m.If(over & final_tile):
                m.d.sync += [tile.eq(0), line.eq(settings.source), groups.eq(groups - 1)]
            with m.If(final_row & final):
                m.d.sync += active.eq(0)
        probe(self, active=active, settings=settings, row=row, minus=minus, first=first, ends=ends, filled=filled)
        probe(self, ahead=ahead, tile=tile, line=line, tiles=tiles, groups=groups)
        return m
