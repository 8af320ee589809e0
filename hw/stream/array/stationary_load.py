"""RTL of `stationary_load`: a memory per column; a key fills a column by lane pairs, a value row all at once."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring

from ....golden.stream.array.stationary_load import StationaryLoadSpec
from ....golden.stream.array.tile_array import Q4_14
from ...ports import elements, members, shape
from ...primitives.mux_tree import mux_tree
from ...primitives.pipeline import delayed
from ...primitives.ram import ram


class StationaryLoad(wiring.Component):
    """Turn rows of keys or values into beats of stationary tiles.

    Accepts a row a cycle, offers a beat a cycle. A tile's first beat comes `spec.latency` (3) cycles after its last
    row.
    """

    def __init__(self, spec: StationaryLoadSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, word = self.spec, self.i.payload
        taken, final, emptied = Signal(), Signal(), Signal()
        number, tiles, writes = Signal(range(spec.lanes)), Signal(range(3)), Signal()
        following, begun = Signal.like(number), Signal()
        m.d.comb += taken.eq(self.i.valid & self.i.ready)
        m.d.comb += final.eq(number == Mux(word.turn, spec.columns - 1, spec.lanes - 1))
        m.d.comb += following.eq(Mux(final, 0, number + 1))
        with m.If(taken):
            m.d.sync += [number.eq(following), writes.eq(writes ^ final)]
        m.d.comb += begun.eq(taken & (number == 0))
        m.d.sync += tiles.eq(tiles + begun - emptied)
        # the accepted row, which is written in the next cycle
        row = [Signal(shape(Q4_14), name=f"row{lane}", reset_less=True) for lane in range(spec.lanes)]
        zero = Value.cast(word.zero)
        for lane, value in enumerate(elements(word.value, spec.streams()["i"].fields[0])):
            m.d.sync += row[lane].eq(Mux(zero[lane // spec.columns], 0, value[: len(row[lane])]))
        value_row = ValueRow(
            Signal(), *(Signal(len(source), reset_less=True) for source in (number, writes, word.part))
        )
        for signal, value in zip(value_row, (taken & ~word.turn, number, writes, word.part), strict=True):
            m.d.sync += signal.eq(value)
        # lane pair n is delayed by n cycles, as a key writes a pair a cycle
        pairs = [
            delayed(m, Cat(row[2 * pair : 2 * pair + 2]), pair, f"pair{pair}", reset_less=True)
            for pair in range(spec.beats)
        ]
        memories, busy = [], list[Value]()
        for column in range(spec.columns):
            m.submodules[f"column{column}"] = storage = ram(platform, spec.memory)
            starts = taken & word.turn & (number == column)
            values = [row[lane] for lane in range(column, spec.lanes, spec.columns)]
            busy.append(self._write(m, storage, column, starts, writes, pairs, values, value_row))
            memories.append(storage)
        # timing: `ready` is slow, so its flags are registers: both tiles full, next key's column busy, any column busy
        full, next_busy, some = Signal(), Signal(), Signal()
        column_bits, begins = max(1, (spec.columns - 1).bit_length()), taken & word.turn
        present, further = (mux_tree(index[:column_bits], busy) for index in (number, following))
        m.d.sync += [
            # while both buffers hold a tile, no tile may begin
            full.eq((Mux(taken, following, number) == 0) & Mux(begun, tiles == 1, tiles == 2) & ~emptied),
            # with a single column, the key that begins keeps the next key's column busy
            next_busy.eq(Mux(taken, further | (begins if spec.columns == 1 else 0), present)),
            some.eq(begins | Cat(busy).any()),
        ]
        m.d.comb += self.i.ready.eq(~full & ~Mux(word.turn, next_busy, some))
        self._read(m, memories, taken & final, emptied)
        return m

    def _write(
        self,
        m: Module,
        storage: memory.Memory,
        column: int,
        starts: Value,
        writes: Value,
        pairs: list[Value],
        values: list[Signal],
        row: "ValueRow",
    ) -> Value:
        """Write a column's memory; returns a flag: a write of the current key will still be active in two cycles.

        A key takes one cycle per lane pair, from the cycle after `starts`.
        """
        spec, port = self.spec, storage.write_port(granularity=Q4_14.width)
        active, tile = Signal(name=f"active{column}"), Signal(name=f"tile{column}", reset_less=True)
        pair = Signal(range(spec.beats), name=f"pair_number{column}", reset_less=True)
        # `more`: further pairs of this key follow; `stays`: also after the next cycle
        more, stays = Signal(name=f"more{column}"), Signal(name=f"stays{column}")
        m.d.comb += stays.eq(more & (pair != spec.beats - 2))
        m.d.sync += more.eq(starts | stays)
        m.d.sync += [active.eq(starts | more), pair.eq(Mux(starts, 0, pair + 1))]
        with m.If(starts):
            m.d.sync += tile.eq(writes)
        value = mux_tree(row.part, values)
        with m.If(row.valid):
            m.d.comb += [
                port.addr.eq(Cat(row.number[1:], row.tile)),
                port.data.eq(Cat(value, value)),
                port.en.eq(Cat(~row.number[0], row.number[0])),
            ]
        with m.Else():
            m.d.comb += [
                port.addr.eq(Cat(pair, tile)),
                port.data.eq(mux_tree(pair, pairs)),
                port.en.eq(active.replicate(2)),
            ]
        return stays

    def _read(self, m: Module, memories: list[memory.Memory], ends: Value, emptied: Signal) -> None:
        """Read tiles, a beat a cycle; reads follow the writes of a tile's last key closely, but never overtake them."""
        spec, ended, complete = self.spec, Signal(), Signal(range(3))
        reads, beat = Signal(), Signal(range(2 * spec.beats))
        m.d.comb += reads.eq(complete.any() & (~self.o.valid | self.o.ready))
        m.d.comb += emptied.eq(reads & beat[:-1].all())
        m.d.sync += [
            ended.eq(ends),
            complete.eq(complete + ended - emptied),
            beat.eq(beat + reads),
            self.o.valid.eq(reads | (self.o.valid & ~self.o.ready)),
        ]
        lower, upper = [], []
        for storage in memories:
            port = storage.read_port()
            m.d.comb += [port.addr.eq(beat), port.en.eq(reads)]
            lower.append(port.data[: Q4_14.width])
            upper.append(port.data[Q4_14.width :])
        m.d.comb += Value.cast(self.o.payload).eq(Cat(lower, upper))


class ValueRow(NamedTuple):
    """A value row, in registers, to be written into all columns at once.

    Parameters
    ----------
    number : Signal
        Lane of the tile.
    tile : Signal
        Tile buffer, 0 or 1.
    part : Signal
        Index of the column group in the row.
    """

    valid: Signal
    number: Signal
    tile: Signal
    part: Signal
