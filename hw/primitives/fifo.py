"""Stream FIFO with a registered memory read."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Shape, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.memories.plan import fifo_memory
from ..probe import probe
from .ram import ram


class Fifo(wiring.Component):
    """First-in first-out buffer between two streams: a payload a cycle in and out, latency two cycles.

    The ports behave cycle by cycle like ``amaranth.lib.fifo.SyncFIFOBuffered(depth=depth + 1)``, as the unit bench
    checks. Amaranth's FIFO compares counters for its flags and uses two carry chains for its level. That costs LUTs and
    often a logic level (``axi_read``: 123 LUTs instead of 120). Its memory accepts no ``ram_style``.

    LUT, FF, and largest number of logic levels, of the FIFO alone:

    ========  ========  =============  ==================
    width     depth     `Fifo`         SyncFIFOBuffered
    ========  ========  =============  ==================
    128       4         84, 136, 1     85, 136, 2
    129       8         86, 140, 2     88, 140, 2
    17        16        24, 31, 2      25, 31, 2
    28        32        29, 45, 2      30, 45, 2
    128       128       15, 23, 2      17, 23, 3
    129       512       18, 29, 2      20, 29, 3
    ========  ========  =============  ==================

    Measured with ``pytest -s -k fifo_figures tests/hw/primitives/test_fifo.py``, which prints this table.

    Parameters
    ----------
    depth : int
        Number of payloads in the memory, a power of two from 2; the output register holds one more. From 128 the memory
        is block RAM.

    Attributes
    ----------
    i : In(stream.Signature(shape))
        Payloads to store. `ready` is low while the memory is full, independent of `o.ready` in the same cycle.
    o : Out(stream.Signature(shape))
        The payloads in order, `valid` from two cycles after the transfer at `i`; `payload` is the memory's output
        register.
    empty : Out(1)
        Neither the memory nor the output register holds a payload.

    Raises
    ------
    ValueError
        If `depth` is not a power of two from 2.
    """

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self._shape, self._bits = shape, (depth - 1).bit_length()
        if depth != 1 << self._bits or depth < 2:
            raise ValueError(f"a FIFO of {depth}: give a power of two from 2 up")
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self._bits
        planned = fifo_memory("FIFO", 1 << bits, Shape.cast(self._shape).width)
        m.submodules.memory = storage = ram(platform, planned, self._shape)
        write_port, read_port = storage.write_port(), storage.read_port()
        # number of payloads in the memory, minus one: the top bit alone means empty
        level = Signal(bits + 1, init=(2 << bits) - 1)
        memory_empty = level[bits]
        write, read = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(memory_empty | ~level[:bits].all()),
            write.eq(self.i.valid & self.i.ready),
            read.eq(~memory_empty & (~self.o.valid | self.o.ready)),
            self.empty.eq(memory_empty & ~self.o.valid),
            write_port.en.eq(write),
            write_port.data.eq(self.i.payload),
            read_port.en.eq(read),
            self.o.payload.eq(read_port.data),
        ]
        m.d.sync += [
            write_port.addr.eq(write_port.addr + write),
            read_port.addr.eq(read_port.addr + read),
            level.eq(level + Cat(write ^ read, (read & ~write).replicate(bits))),
            self.o.valid.eq(read | (self.o.valid & ~self.o.ready)),
        ]
        probe(self, level=level)
        return m
