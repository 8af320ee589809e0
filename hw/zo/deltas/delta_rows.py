"""Memory of delta rows, with image load and save."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import BEAT
from ....golden.zo.deltas import DELTA
from ....golden.zo.rows import delta_memory
from ...axi.memory_port import BEATS
from ...ports import shape
from ...primitives.ram import ram

PER_BEAT = BEAT // 4
"""Number of deltas in a beat, of 32 bits each."""


class DeltaRows(wiring.Component):
    """Store whole rows of deltas: a read and a write a cycle.

    During a load, registers collect the beats of a row. Another component may store rows of its own through the write
    port.

    Parameters
    ----------
    rows, width : int
        Number of rows, and deltas of a row.
    shared : wiring.Signature, optional
        Port for the other component, with ``write``, ``read``, ``address``, ``data`` and ``row``, see
        `hw.nn.interfaces.CutRows`. Its rows are at most as wide as delta rows. The memory has a half for each
        component, as deep as the larger row count, rounded up to a power of two.

    Attributes
    ----------
    address : In, range(rows)
    clear : In, 1
        Read 0 instead.
    row : Out, array of deltas
        The row at `address`, one cycle later.
    write : In, 1
        Store `write_row` at `write_address`; not while an image is loaded.
    write_address : In, range(rows)
    write_row : In, array of deltas
    load : In stream of beats
        Images, each with all rows; always ready.
    loaded : Out, 1
        The last beat of an image has arrived; one cycle.
    save : Out stream of beats
        An image of all rows after each `begin_save`; during the save `row` is invalid.
    begin_save : In, 1
        Begin a save; one cycle.
    saved : Out, 1
        The last beat of an image was accepted; one cycle.
    shared : In, only if given
        Port of the other component; must not be used in cycles in which deltas are loaded or written.
    """

    def __init__(self, rows: int, width: int, shared: wiring.Signature | None = None) -> None:
        self.rows, self.width, self.shares = rows, width, shared is not None
        self.planned = delta_memory(
            rows, width, 1 << Shape.cast(shared.members["address"].shape).width if shared else 0
        )
        self.row_beats = -(-width // PER_BEAT)
        row = data.ArrayLayout(shape(DELTA), width)
        ports = {
            "address": In(range(rows)),
            "clear": In(1),
            "row": Out(row),
            "write": In(1),
            "write_address": In(range(rows)),
            "write_row": In(row),
            "load": In(BEATS),
            "loaded": Out(1),
            "save": Out(BEATS),
            "begin_save": In(1),
            "saved": Out(1),
        }
        if shared:
            ports["shared"] = In(shared)
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows, loading = self.rows, self.load.valid
        load_beat, load_row = Signal(range(self.row_beats)), Signal(range(rows))
        load_end = load_beat == self.row_beats - 1
        m.d.comb += [self.load.ready.eq(1), self.loaded.eq(loading & load_end & (load_row == rows - 1))]
        with m.If(loading):
            m.d.sync += load_beat.eq(Mux(load_end, 0, load_beat + 1))
            with m.If(load_end):
                m.d.sync += load_row.eq(Mux(load_row == rows - 1, 0, load_row + 1))
        saving, save_row = Signal(), Signal(range(rows), reset_less=True)
        address = Mux(saving, save_row, self.address)
        store: Value = Mux(loading, load_row, self.write_address)
        m.submodules.memory = deltas = ram(platform, self.planned)
        into, port = deltas.write_port(), deltas.read_port(domain="comb")
        waiting = Signal(8 * BEAT * (self.row_beats - 1), reset_less=True)
        with m.If(loading):
            m.d.sync += waiting.eq(Cat(waiting, self.load.payload)[8 * BEAT :])
        loaded_row = Cat(waiting, self.load.payload)[: self.planned.width]
        write: Value = Mux(loading, load_end, self.write)
        values: Value = Mux(loading, loaded_row, Value.cast(self.write_row))
        if self.shares:
            # deltas use the first half of the memory, the other component the second half
            bits, owns_port, other = exact_log2(self.planned.depth) - 1, Signal(), deltas.read_port()
            m.d.comb += owns_port.eq(loading | self.write)
            address = _padded(address, bits + 1)
            store = Cat(Mux(owns_port, _padded(store, bits), _padded(self.shared.address, bits)), ~owns_port)
            write = write | (self.shared.write & ~owns_port)
            values = Mux(owns_port, values, Value.cast(self.shared.data))
            # synthesis maps both to one physical port only if it can see that the enables exclude each other
            m.d.comb += [
                other.addr.eq(store),
                other.en.eq(self.shared.read & ~self.shared.write & ~owns_port),
                Value.cast(self.shared.row).eq(other.data),
            ]
        m.d.comb += [into.en.eq(write), into.addr.eq(store), into.data.eq(values), port.addr.eq(address)]
        # synthesis maps this register, with its clear, to the memory's output latch
        read = Signal(self.planned.width, reset_less=True)
        m.d.sync += read.eq(port.data)
        with m.If(self.clear):
            m.d.sync += read.eq(0)
        m.d.comb += Value.cast(self.row).eq(read)
        self._save(m, saving, save_row, read)
        return m

    def _save(self, m: Module, saving: Signal, save_row: Signal, row: Signal) -> None:
        """Output the beats of all rows; each row is read a cycle ahead."""
        ready, chosen, save_beat = Signal(), Signal(8 * BEAT), Signal(range(self.row_beats))
        save_end, last_row = save_beat == self.row_beats - 1, save_row == self.rows - 1
        with m.Switch(save_beat):
            for number in range(self.row_beats):
                with m.Case(number):
                    m.d.comb += chosen.eq(row.word_select(number, 8 * BEAT))
        m.d.comb += [self.save.valid.eq(saving & ready), self.save.payload.eq(chosen)]
        with m.If(self.begin_save):
            m.d.sync += [saving.eq(1), ready.eq(0), save_row.eq(0), save_beat.eq(0)]
        with m.Elif(saving & ~ready):
            m.d.sync += ready.eq(1)
        with m.Elif(self.save.valid & self.save.ready):
            m.d.sync += save_beat.eq(Mux(save_end, 0, save_beat + 1))
            with m.If(save_end):
                m.d.comb += self.saved.eq(last_row)
                m.d.sync += [ready.eq(0), save_row.eq(save_row + 1), saving.eq(~last_row)]


def _padded(value: Value, bits: int) -> Value:
    return Cat(value, Const(0, bits - len(value)))
