"""Loader of cached rows, from DRAM into the activation memory."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT, BEAT_COUNT_BITS
from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.stream.norms import Q11_16
from ...axi.memory_port import BEATS
from ...ports import shape
from .chunk_line import ChunkLine

PER_BEAT = BEAT // 4
"""Number of values in a beat, of 4 bytes each."""


class RowLoader(wiring.Component):
    """Collect the beats of rows, and write each chunk after the chunk's last beat.

    A row begins on a beat. The last chunk of a row is padded with zeros.

    Parameters
    ----------
    chunks : ChunkLayout
        Geometry of the activation memory; chunks of at least 4 values.
    sums : int
        Maximum number of rows, both signs together.

    Attributes
    ----------
    start : In(1)
        Begin, one cycle. The inputs below stay stable until `done`.
    rows : In
        Number of rows for each sign, at least 1.
    row_beats : In(16)
        Number of beats in a row, at least 1.
    alike : In(1)
        High: each row is written for both signs. Low: plus and minus rows alternate.
    wide, base, stride : In
        Memory and address of the first row, and the difference between the addresses of two groups.
    beats : In, stream of beats
        Four values of 32 bits, of which the lower 27 bits are used.
    write : Out, stream of ``wide``, ``address``, ``part``, ``value`` (columns of 27 bits)
        Chunks. Plus rows have the first `rows` addresses, minus rows the next.
    done : Out(1)
        All chunks are written; one cycle.
    """

    def __init__(self, chunks: ChunkLayout, sums: int) -> None:
        self.chunks = chunks
        address, part = shape(chunks.address), shape(chunks.part)
        values = data.ArrayLayout(shape(Q11_16), chunks.columns)
        super().__init__(
            {
                "start": In(1),
                "rows": In(range(sums // 2 + 1)),
                "row_beats": In(BEAT_COUNT_BITS),
                "alike": In(1),
                "wide": In(1),
                "base": In(address),
                "stride": In(address),
                "beats": In(BEATS),
                "write": Out(
                    stream.Signature(data.StructLayout({"wide": 1, "address": address, "part": part, "value": values}))
                ),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.line = line = ChunkLine(self.chunks)
        count, write = self.chunks.columns // PER_BEAT, self.write.payload
        values = [
            Signal(shape(Q11_16), name=f"value{column}", reset_less=True) for column in range(self.chunks.columns)
        ]
        beat, remaining = Signal(range(count)), Signal(BEAT_COUNT_BITS, reset_less=True)
        row, minus = Signal.like(self.rows, name="row"), Signal()
        turns, ends = Signal(), Signal()
        m.d.comb += [
            line.wide.eq(self.wide),
            line.base.eq(self.base),
            line.stride.eq(self.stride),
            write.wide.eq(line.in_wide),
            write.address.eq(line.line + row + Mux(minus, self.rows, 0)),
            write.part.eq(line.part),
            *(into.eq(value) for into, value in zip(write.value, values, strict=True)),
            turns.eq(self.alike & ~minus),
            ends.eq(minus & (row == self.rows - 1)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [row.eq(0), minus.eq(0)]
                with m.If(self.start):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += line.start.eq(1)
                m.d.sync += [remaining.eq(self.row_beats), beat.eq(0)]
                m.next = "GATHER"
            with m.State("GATHER"):
                m.d.comb += self.beats.ready.eq(1)
                with m.If(self.beats.valid):
                    self._take(m, values, beat)
                    m.d.sync += [remaining.eq(remaining - 1), beat.eq(beat + 1)]
                    with m.If((remaining == 1) | (beat == count - 1)):
                        m.d.sync += beat.eq(0)
                        m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += self.write.valid.eq(1)
                with m.If(self.write.ready):
                    with m.If(turns):
                        m.d.sync += minus.eq(1)
                    with m.Else():
                        m.d.comb += line.advance.eq(1)
                        with m.If(self.alike & (remaining != 0)):
                            m.d.sync += minus.eq(0)
                        m.next = "GATHER"
                        with m.If(remaining == 0):
                            m.d.sync += [row.eq(row + minus), minus.eq(~minus)]
                            m.next = "ROW"
                            with m.If(ends):
                                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m

    def _take(self, m: Module, values: list[Signal], beat: Value) -> None:
        """Store the values of a beat; a chunk's first beat also clears the chunk's other values."""
        words = [
            self.beats.payload.word_select(index, 8 * BEAT // PER_BEAT)[: Q11_16.width] for index in range(PER_BEAT)
        ]
        for number in range(0, len(values), PER_BEAT):
            of_beat = Cat(values[number : number + PER_BEAT])
            with m.If(beat == number // PER_BEAT):
                m.d.sync += of_beat.eq(Cat(words))
            with m.Elif(beat == 0):
                m.d.sync += of_beat.eq(0)
