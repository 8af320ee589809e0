"""Sentence table: the sentences of a pass, over and over, those of the plus side and then of the minus side."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.memories.plan import MemoryShape
from ...primitives.ram import ram


class SentenceTable(wiring.Component):
    """Give a sentence a cycle, from two cycles behind `restart` on.

    Parameters
    ----------
    sums : int
        Most rows of both sides, a power of two.

    Attributes
    ----------
    clear : In(1)
        Forget all sentences, and give none.
    sentence : In, stream of ``first``, ``length``
        A further sentence of the plus side: its first row and its tokens. Always taken; at most ``sums // 2``.
    rows, count : In
        Rows of a side, and sentences of a side, at least 1. They stay while sentences are taken.
    restart : In(1)
        Begin with the first sentence again: a word on offer is withdrawn.
    sentences : Out, stream of ``first``, ``length``
        The sentences of the plus side, then those of the minus side, whose rows are `rows` further on; then again.
    """

    def __init__(self, sums: int) -> None:
        self._sums = sums
        count = range(sums // 2 + 1)
        self._layout = data.StructLayout({"first": count, "length": count})
        super().__init__(
            {
                "clear": In(1),
                "sentence": In(stream.Signature(self._layout)),
                "rows": In(count),
                "count": In(count),
                "restart": In(1),
                "sentences": Out(stream.Signature(data.StructLayout({"first": range(sums), "length": count}))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entries = self._sums // 2
        planned = MemoryShape("sentences", entries, self._layout.size, lut_rows=entries)
        m.submodules.memory = memory = ram(platform, planned, self._layout)
        write_port, read_port = memory.write_port(), memory.read_port()
        number, side, minus, active, moves = Signal(range(entries)), Signal(), Signal(), Signal(), Signal()
        given, found = self.sentences, read_port.data
        final = number == self.count - 1
        m.d.comb += [
            self.sentence.ready.eq(1),
            write_port.en.eq(self.sentence.valid),
            write_port.data.eq(self.sentence.payload),
            moves.eq(active & (~given.valid | given.ready)),
            read_port.en.eq(moves),
            read_port.addr.eq(number),
            given.payload.first.eq(found.first + Mux(minus, self.rows, 0)),
            given.payload.length.eq(found.length),
        ]
        m.d.sync += write_port.addr.eq(Mux(self.clear, 0, write_port.addr + self.sentence.valid))
        with m.If(moves):
            m.d.sync += [given.valid.eq(1), minus.eq(side), number.eq(Mux(final, 0, number + 1)), side.eq(side ^ final)]
        with m.If(self.clear | self.restart):
            m.d.sync += [given.valid.eq(0), number.eq(0), side.eq(0), active.eq(self.restart)]
        return m
