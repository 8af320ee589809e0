"""A first-in first-out queue with short paths: its memory is read registered, its flags are bits of registers."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, ShapeLike, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

_BLOCK_RAM_DEPTH = 128
"""Queues this deep or deeper are block RAM."""


class Fifo(wiring.Component):
    """Holds up to ``depth + 1`` payloads; `o` follows `i` by two cycles, one payload a cycle.

    Parameters
    ----------
    shape : ShapeLike
        Of the payload.
    depth : int
        A power of two.

    Ports
    -----
    i : In stream
    o : Out stream
    empty : Out, nothing inside, in the memory or at the output
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape, self._bits = shape, (depth - 1).bit_length()
        if depth != 1 << self._bits or depth < 2:
            raise ValueError(f"a queue of {depth}: give a power of two from 2 up")
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, depth = self._bits, 1 << self._bits
        style = {"ram_style": "block"} if depth >= _BLOCK_RAM_DEPTH else {}
        m.submodules.memory = storage = memory.Memory(shape=self._shape, depth=depth, init=[], attrs=style)
        writer, reader = storage.write_port(), storage.read_port()
        # payloads in the memory, less one: the top bit alone says that there is none
        count = Signal(bits + 1, init=(2 << bits) - 1)
        none = count[bits]
        enter, leave = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(none | ~count[:bits].all()),
            enter.eq(self.i.valid & self.i.ready),
            leave.eq(~none & (~self.o.valid | self.o.ready)),
            self.empty.eq(none & ~self.o.valid),
            writer.en.eq(enter),
            writer.data.eq(self.i.payload),
            reader.en.eq(leave),
            self.o.payload.eq(reader.data),
        ]
        m.d.sync += [
            writer.addr.eq(writer.addr + enter),
            reader.addr.eq(reader.addr + leave),
            count.eq(count + Cat(enter ^ leave, (leave & ~enter).replicate(bits))),
            self.o.valid.eq(leave | (self.o.valid & ~self.o.ready)),
        ]
        return m
