"""Table of the sentences of a pass, read cyclically."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.memories.plan import MemoryShape
from ...primitives.ram import ram


class SentenceTable(wiring.Component):
    """Output a sentence a cycle, from two cycles after `restart`.

    Parameters
    ----------
    sums : int
        Maximum number of rows, both signs together; a power of two.

    Attributes
    ----------
    clear : In(1)
        Remove all sentences and stop the output.
    sentence : In, stream of ``first``, ``length``
        Add a plus sentence: first row and tokens. Always ready; at most ``sums // 2`` sentences.
    rows, count : In
        Number of rows and of sentences for each sign, at least 1; stable while sentences are read.
    restart : In(1)
        Restart from the first sentence; an offered word is withdrawn.
    sentences : Out, stream of ``first``, ``length``
        The plus sentences, then the minus sentences with `rows` added to ``first``; repeated endlessly.
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
        out, entry = self.sentences, read_port.data
        final = number == self.count - 1
        m.d.comb += [
            self.sentence.ready.eq(1),
            write_port.en.eq(self.sentence.valid),
            write_port.data.eq(self.sentence.payload),
            moves.eq(active & (~out.valid | out.ready)),
            read_port.en.eq(moves),
            read_port.addr.eq(number),
            out.payload.first.eq(entry.first + Mux(minus, self.rows, 0)),
            out.payload.length.eq(entry.length),
        ]
        m.d.sync += write_port.addr.eq(Mux(self.clear, 0, write_port.addr + self.sentence.valid))
        with m.If(moves):
            m.d.sync += [
                out.valid.eq(1),
                minus.eq(side),
                number.eq(Mux(final, 0, number + 1)),
                side.eq(side ^ final),
            ]
        with m.If(self.clear | self.restart):
            m.d.sync += [out.valid.eq(0), number.eq(0), side.eq(0), active.eq(self.restart)]
        return m
