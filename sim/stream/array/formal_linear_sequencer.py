"""Rules of `linear_sequencer`: reads by row, then side, tile and group (rows vary fastest), and an order word per tile.

The expected read is computed from the previous read and the layer's sizes, without the block's state.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal, Value

from ....golden.stream.array.linear_sequencer import LinearSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import probe_of

SPEC = LinearSequencerSpec(lanes=4, columns=2, rows=64, wide_rows=4, sums=4)


def check(checker: Checker, spec: LinearSequencerSpec) -> None:
    """Assumes layers with at least one input and output, and 1 to `sums` / 2 rows a side."""
    m, operation, read = checker.m, checker.streams["operation"], checker.streams["rows_read"]
    config, word = operation.payload, read.payload
    sizes = (config.inputs != 0) & (config.outputs != 0) & (config.rows != 0) & (config.rows <= spec.sums // 2)
    checker.assume(~operation.valid | sizes)
    layer = Signal.like(config, name="layer")
    busy, row, tile, group = (
        Signal(width, name=name) for width, name in ((1, "busy"), (3, "row"), (24, "tile"), (24, "group"))
    )
    line = Signal.like(word.address, name="line")
    tiles, groups = (layer.inputs - 1) // spec.lanes, (layer.outputs - 1) // spec.columns
    final_row, final_tile, final_group = row == 2 * layer.rows - 1, tile == tiles, group == groups
    with m.If(checker.moves("operation")):
        m.d.sync += [layer.eq(config), busy.eq(1), row.eq(0), tile.eq(0), group.eq(0), line.eq(config.source)]
    with m.Elif(checker.moves("rows_read")):
        m.d.sync += row.eq(Mux(final_row, 0, row + 1))
        with m.If(final_row):
            m.d.sync += [tile.eq(Mux(final_tile, 0, tile + 1)), group.eq(group + final_tile)]
            m.d.sync += line.eq(Mux(final_tile, layer.source, line + layer.stride))
            m.d.sync += busy.eq(~(final_tile & final_group))
    same = (word.row == row) & (word.first == (tile == 0)) & (word.last == final_tile)
    address = (line + row)[: len(word.address)]
    probe = probe_of(checker.block)
    minus = row >= layer.rows
    counters = (probe.row == row) & (probe.tile == tile) & (probe.line == line) & (probe.minus == minus)
    remaining = (
        (probe.tiles == tiles)
        & (probe.groups == groups - group)
        & (group <= groups)
        & (tile <= tiles)
        & (row < 2 * layer.rows)
    )
    ends = probe.ends == Mux(minus, 2 * layer.rows - 1, layer.rows - 1)
    begins = (row == 0) | (row == layer.rows)
    filled = ((layer.inputs - 1) & (spec.lanes - 1)) + 1
    checker.lemmas_together(
        {
            "active": probe.active == busy,
            "settings": ~busy | (probe.settings.as_value() == layer.as_value()),
            "counters": ~busy | counters,
            "left": ~busy | remaining,
            "ends": ~busy | (ends & (probe.first == begins)),
            "layer": ~busy | ((layer.rows != 0) & (layer.rows <= spec.sums // 2)),
            "filled": ~busy | (probe.filled == filled),
        }
    )
    checker.rule("reads", ~read.valid | (busy & same & (word.address == address)))
    checker.rule("operation_taken", operation.ready == ~busy)
    # before a side's first read the order word is for this side; afterwards for the other side or the next tile
    following = Mux(begins | ~minus, tile, Mux(final_tile, 0, tile + 1))
    used = Mux(following == tiles, filled, spec.lanes)
    checker.rule("order_used", ~checker.streams["order"].valid | (checker.streams["order"].payload.used == used))
    _order(checker, layer, busy, begins, final_tile & final_group & minus)
    checker.progress(2)


def _order(checker: Checker, layer: Signal, busy: Value, begins: Value, final: Value) -> None:
    """Prove one order word per tile of a side, between the first read of the previous tile and that of this tile."""
    m, order, read = checker.m, checker.streams["order"], checker.streams["rows_read"]
    ahead = Signal(2, name="ahead")
    begun = checker.moves("rows_read") & begins
    m.d.sync += ahead.eq(ahead + checker.moves("order") - begun)
    probe = probe_of(checker.block)
    last = busy & final & ~begins
    checker.lemmas_together(
        {
            "order_ahead": ahead == probe.ahead,
            "order_over": ~last | ~probe.ahead,
        }
    )
    checker.rule("order_within", ahead <= 1)
    checker.rule("order_first", ~(read.valid & begins) | (ahead == 1))
    checker.rule("order_made", ~order.valid | (busy & (order.payload.rows == layer.rows) & (begins | ~final)))
    checker.rule("order_idle", busy | (ahead == 0))
