"""RTL of `partial_sums`: read a row, add, then write it back or enqueue it; the queue is output in slices."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ....golden.stream.array.partial_sums import TOTAL, PartialSumsSpec
from ....golden.stream.array.tile_array import SUM
from ...ports import members, shape
from ...primitives.fifo import Fifo
from ...primitives.mux_tree import mux_tree
from ...primitives.ram import ram
from ...primitives.registers import data_register, replicas
from ...probe import probe


class PartialSums(wiring.Component):
    """Accumulate rows of terms over tiles.

    Accepts a row a cycle. The first slice of a complete row leaves `spec.latency` cycles after the row's last term.
    """

    def __init__(self, spec: PartialSumsSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, term_row = self.spec, self.i.payload
        m.submodules.memory = memory = ram(platform, spec.memory)
        write_port, read_port = memory.write_port(), memory.read_port()
        width, row = spec.columns * TOTAL.width, shape(spec.row_number)
        m.submodules.queue = queue = Fifo(data.StructLayout({"sums": width, "row": row}), spec.sums)
        # read, add, write: after a read, the same row must not be read for two cycles
        terms, totals = (
            [Signal(shape(form), name=f"{name}{column}", reset_less=True) for column in range(spec.columns)]
            for name, form in (("term", SUM), ("total", TOTAL))
        )
        read_row, added_row = Signal(row, reset_less=True), Signal(row, reset_less=True)
        adds, completes, write, complete = Signal(), Signal(), Signal(), Signal()
        begins = replicas(spec.columns, "begins")
        places, leaves = Signal(range(spec.sums + 1), init=spec.sums), Signal()
        conflict = (adds & (read_row == term_row.row)) | (write & (added_row == term_row.row))
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq((term_row.first | ~conflict) & (~term_row.last | places.any())),
            read_port.addr.eq(term_row.row),
            write_port.addr.eq(added_row),
            write_port.data.eq(Cat(totals)),
            write_port.en.eq(write),
            queue.i.valid.eq(complete),
            queue.i.payload.sums.eq(Cat(totals)),
            queue.i.payload.row.eq(added_row),
        ]
        m.d.sync += [
            adds.eq(taken & ~term_row.last),
            completes.eq(taken & term_row.last),
            read_row.eq(term_row.row),
            Cat(terms).eq(term_row.sum),
            write.eq(adds),
            complete.eq(completes),
            added_row.eq(read_row),
            places.eq(places + leaves - (taken & term_row.last)),
            *(flag.eq(term_row.first) for flag in begins),
        ]
        for number, (begin, term, total) in enumerate(zip(begins, terms, totals, strict=True)):
            before = read_port.data[number * TOTAL.width : (number + 1) * TOTAL.width].as_signed()
            m.d.sync += total.eq(term + Mux(begin, 0, before))
        self._drain(m, queue, leaves)
        probe(self, adds=adds, read_row=read_row, write=write, added_row=added_row)
        probe(self, places=places, completes=completes, complete=complete)
        return m

    def _drain(self, m: Module, queue: Fifo, leaves: Signal) -> None:
        """Output the queue's first row in slices; `leaves` is high when its last slice enters the output register."""
        spec, moves, part = self.spec, Signal(), Signal(shape(self.spec.part_number))
        final = part == spec.parts - 1
        # copies of the valid flag: one for the wide registers, one for the queue's handshake
        wide, short = replicas(2, "offered")
        m.d.comb += [
            self.o.valid.eq(wide),
            moves.eq(~wide | self.o.ready),
            queue.o.ready.eq((~short | self.o.ready) & final),
        ]
        m.d.comb += leaves.eq(queue.o.valid & queue.o.ready)
        output = data_register(m, self.o.payload, "complete_sums")
        word = Value.cast(queue.o.payload.sums)
        step = spec.drain * TOTAL.width
        choices = [word[start : start + step] for start in range(0, len(word), step)]
        with m.If(~short | self.o.ready):
            m.d.sync += short.eq(queue.o.valid)
        with m.If(moves):
            m.d.sync += [
                wide.eq(queue.o.valid),
                Value.cast(output.sum).eq(mux_tree(part, choices)),
                output.row.eq(queue.o.payload.row),
                output.part.eq(part),
            ]
            with m.If(queue.o.valid):
                m.d.sync += part.eq(Mux(final, 0, part + 1))
