"""Order of scores and weights: by key tile, without invisible keys."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...probe import probe


def block_layout(queries: int, keys: int, repeats: int) -> data.StructLayout:
    """Layout of a query block; `queries`, `keys` and `repeats` are numbers minus 1.

    Parameters
    ----------
    queries, keys : int
        Maximum numbers of queries and of keys, powers of two.
    repeats : int
        Bits of the number of repeats.
    """
    key_bits = exact_log2(keys)
    fields: dict[str, Shape | int] = {
        "queries": unsigned(exact_log2(queries)),
        "keys": unsigned(key_bits),
        "first": unsigned(key_bits),
        "causal": 1,
        "repeats": unsigned(repeats),
        "bank": 1,
    }
    return data.StructLayout(fields)


class KeyTiles(wiring.Component):
    """Step through key tiles, and in a tile through the queries that see one of its keys; `repeats` + 1 times in all.

    Parameters
    ----------
    size : int
        Keys of a tile, a power of two.

    Attributes
    ----------
    start : In(1)
        Restart; `block` is the new block from the next cycle on.
    step : In(1)
        Go to the next query.
    block : In
        Query block.
    query, tile : Out
        Current query and tile, registered.
    edge : Out
        Last key visible to the query.
    begins : Out(1)
        The query is the first of its tile.
    ends : Out(1)
        The query is the last of the last repeat.
    """

    def __init__(self, layout: data.StructLayout, size: int) -> None:
        self.size = size
        key_bits = layout["keys"].width
        super().__init__(
            {
                "start": In(1),
                "step": In(1),
                "block": In(layout),
                "query": Out(layout["queries"].shape),
                "tile": Out(key_bits - exact_log2(size)),
                "edge": Out(key_bits),
                "begins": Out(1),
                "ends": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        block, bits = self.block, exact_log2(self.size)
        following, repeat = Signal(len(self.tile) + 1), Signal(block.repeats.shape())
        # causal diagonal: index of the query at the next tile's first key
        diagonal = Signal(len(self.edge) + 2)
        last_query, last_tile = Signal(), Signal()
        m.d.comb += [
            diagonal.eq(Cat(Const(0, bits), following) - block.first),
            last_query.eq(self.query == block.queries),
            last_tile.eq(self.tile == block.keys[bits:]),
            self.edge.eq(Mux(block.causal, block.first + self.query, block.keys)),
            self.ends.eq(last_query & last_tile & (repeat == block.repeats)),
        ]
        with m.If(self.start):
            m.d.sync += [self.query.eq(0), self.tile.eq(0), following.eq(1), repeat.eq(0), self.begins.eq(1)]
        with m.Elif(self.step):
            m.d.sync += [self.query.eq(self.query + 1), self.begins.eq(last_query)]
            with m.If(last_query & last_tile):
                m.d.sync += [self.query.eq(0), self.tile.eq(0), following.eq(1), repeat.eq(repeat + 1)]
            with m.Elif(last_query):
                m.d.sync += [self.tile.eq(following), following.eq(following + 1)]
                m.d.sync += self.query.eq(Mux(block.causal & ~diagonal[-1], diagonal, 0))
        probe(self, following=following, repeat=repeat)
        return m
