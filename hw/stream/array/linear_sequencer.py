"""RTL of `linear_sequencer`: nested counters of rows, signs, tiles and groups, and a line address."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.stream.array.linear_sequencer import LinearSequencerSpec
from ...ports import members
from ...probe import probe


class LinearSequencer(wiring.Component):
    """Issue the row reads and the tile order of a linear layer.

    Offers a read a cycle, from the third cycle after an operation. A tile's `order` word comes no later than the tile's
    first read.
    """

    def __init__(self, spec: LinearSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, layer, read = self.spec, self.operation.payload, self.rows_read.payload
        settings = Signal.like(layer, reset_less=True)
        active = Signal()
        features = len(layer.inputs)
        tiles = Signal(features - exact_log2(spec.lanes), reset_less=True)
        groups = Signal(features - exact_log2(spec.columns), reset_less=True)
        # index of the layer's last tile and of its last group
        last_tile, last_group = (
            (layer.inputs - 1) >> exact_log2(spec.lanes),
            (layer.outputs - 1) >> exact_log2(spec.columns),
        )
        tile, line = Signal.like(tiles, reset_less=True), Signal.like(layer.source, reset_less=True)
        row, minus = Signal.like(layer.rows, reset_less=True), Signal(reset_less=True)
        ends = Signal.like(layer.rows, reset_less=True)
        first, ahead = Signal(reset_less=True), Signal()
        # number of lanes that the last tile uses, and a flag: the next `order` word is for the last tile
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
            m.d.sync += filled.eq(((layer.inputs - 1) & (spec.lanes - 1)) + 1)
            m.d.sync += [
                settings.eq(layer),
                active.eq(self.operation.valid),
                first.eq(1),
                ends.eq(layer.rows - 1),
            ]
            m.d.sync += [tiles.eq(last_tile), groups.eq(last_group), tile.eq(0), line.eq(layer.source)]
            m.d.sync += [row.eq(0), minus.eq(0)]
        with m.Elif(taken):
            m.d.sync += [first.eq(final_row), row.eq(row + 1)]
            # timing: `taken` settles late in the cycle, so these conditions do not nest
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
