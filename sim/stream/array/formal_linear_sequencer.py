"""Rules of `linear_sequencer`: rows of each tile in order, sides in turns, a word before each tile and no other.

What a read has to be follows from the read before it and the layer's sizes: it is counted here by the words alone.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value

from ....golden.stream.array.linear_sequencer import LinearSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import probe_of

SPEC = LinearSequencerSpec(lanes=4, columns=2, rows=64, wide_rows=4, sums=4)


def check(checker: Checker, spec: LinearSequencerSpec) -> None:
    """Add the rules; a layer has features, and rows of both sides for which there are sums."""
    m, operation, read = checker.m, checker.streams["operation"], checker.streams["rows_read"]
    given, word = operation.payload, read.payload
    sizes = (given.inputs != 0) & (given.outputs != 0) & (given.rows != 0) & (given.rows <= spec.sums // 2)
    checker.assume(~operation.valid | sizes)
    layer = Signal.like(given, name="layer")
    busy, row, tile, group = (
        Signal(width, name=name) for width, name in ((1, "busy"), (3, "row"), (24, "tile"), (24, "group"))
    )
    line = Signal.like(word.address, name="line")
    tiles, groups = (layer.inputs - 1) // spec.lanes, (layer.outputs - 1) // spec.columns
    final_row, final_tile, final_group = row == 2 * layer.rows - 1, tile == tiles, group == groups
    with m.If(checker.moves("operation")):
        m.d.sync += [layer.eq(given), busy.eq(1), row.eq(0), tile.eq(0), group.eq(0), line.eq(given.source)]
    with m.Elif(checker.moves("rows_read")):
        m.d.sync += row.eq(Mux(final_row, 0, row + 1))
        with m.If(final_row):
            m.d.sync += [tile.eq(Mux(final_tile, 0, tile + 1)), group.eq(group + final_tile)]
            m.d.sync += line.eq(Mux(final_tile, layer.source, line + layer.stride))
            m.d.sync += busy.eq(~(final_tile & final_group))
    same = (word.row == row) & (word.first == (tile == 0)) & (word.last == final_tile)
    address = (line + row)[: len(word.address)]
    own = probe_of(checker.block)
    minus = row >= layer.rows
    counters = (own.row == row) & (own.tile == tile) & (own.line == line) & (own.minus == minus)
    left = (
        (own.tiles == tiles)
        & (own.groups == groups - group)
        & (group <= groups)
        & (tile <= tiles)
        & (row < 2 * layer.rows)
    )
    ends = own.ends == Mux(minus, 2 * layer.rows - 1, layer.rows - 1)
    begins = (row == 0) | (row == layer.rows)
    filled = ((layer.inputs - 1) & (spec.lanes - 1)) + 1
    checker.lemmas_together(
        {
            "active": own.active == busy,
            "settings": ~busy | (own.settings.as_value() == layer.as_value()),
            "counters": ~busy | counters,
            "left": ~busy | left,
            "ends": ~busy | (ends & (own.first == begins)),
            "layer": ~busy | ((layer.rows != 0) & (layer.rows <= spec.sums // 2)),
            "filled": ~busy | (own.filled == filled),
        }
    )
    checker.rule("reads", ~read.valid | (busy & same & (word.address == address)))
    checker.rule("operation_taken", operation.ready == ~busy)
    # a word behind a first read is that of the tile's other side, or of the next tile
    following = Mux(begins | ~minus, tile, Mux(final_tile, 0, tile + 1))
    used = Mux(following == tiles, filled, spec.lanes)
    checker.rule("order_used", ~checker.streams["order"].valid | (checker.streams["order"].payload.used == used))
    _order(checker, layer, busy, begins, final_tile & final_group & minus)
    checker.progress(2)


def _order(checker: Checker, layer: Signal, busy: Value, begins: Value, final: Value) -> None:
    """Prove that each tile of a side has a word, before its first read and behind that of the last tile."""
    m, order, read = checker.m, checker.streams["order"], checker.streams["rows_read"]
    ahead = Signal(2, name="ahead")
    begun = checker.moves("rows_read") & begins
    m.d.sync += ahead.eq(ahead + checker.moves("order") - begun)
    own = probe_of(checker.block)
    last = busy & final & ~begins
    checker.lemmas_together(
        {
            "order_ahead": ahead == own.ahead,
            "order_over": ~last | ~own.ahead,
        }
    )
    checker.rule("order_within", ahead <= 1)
    checker.rule("order_first", ~(read.valid & begins) | (ahead == 1))
    checker.rule("order_made", ~order.valid | (busy & (order.payload.rows == layer.rows) & (begins | ~final)))
    checker.rule("order_idle", busy | (ahead == 0))
