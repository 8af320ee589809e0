"""On-chip memory with the command streams of the AXI managers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS, BEAT
from ...golden.axi.memories import cache_memory
from ..primitives.fifo import Fifo
from ..primitives.pipeline import Pipeline
from ..primitives.ram import ram
from .axi_read import beats_read
from .bursts import command

_FIFO_DEPTH = 8
"""Maximum number of beats that are read and not yet accepted."""
_LOW = (BEAT - 1).bit_length()
"""Address bits within a beat."""


class CacheRam(wiring.Component):
    """Memory of `beats` words of 128 bits; reads a beat a cycle and, independently, writes a beat a cycle.

    Commands are the same as for `AxiRead` and `AxiWrite`. A written beat is visible to read commands from the cycle
    after `idle` rises. Addresses wrap around at the memory's size.

    Attributes
    ----------
    read : In, stream of ``address`` (`address` bits, a multiple of 16), ``beats`` (16 bits, from 1 up)
        Read commands. `ready` is high once all reads of the previous command are issued.
    o : Out, stream of ``data`` (128 bits), ``last`` (1 bit, the last beat of its command)
        Beats of all read commands in order; a command's first beat comes `READ_LATENCY` cycles after the command.
    write : In, stream of ``address``, ``beats``, as `read`
        Write commands. `ready` equals `idle`.
    i : In, stream of 128 bits
        Beats of all write commands in order. `ready` is high during a write command.
    idle : Out(1)
        All beats of write commands are in the memory.
    """

    LATENCY = 4
    """Cycles from a read address to its word: the read register, and registers to spread along an UltraRAM cascade."""
    READ_LATENCY = LATENCY + 3
    """Cycles from a read command to its first beat: memory, one register before it, two in the FIFO."""

    def __init__(self, beats: int, address: int = ADDRESS_BITS) -> None:
        self.beats = beats
        super().__init__(
            {
                "read": In(command(address)),
                "o": Out(beats_read(8 * BEAT)),
                "write": In(command(address)),
                "i": In(stream.Signature(8 * BEAT)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = rows = ram(platform, cache_memory(self.beats))
        self._write(m, rows.write_port())
        self._read(m, rows.read_port())
        return m

    def _write(self, m: Module, port: memory.WritePort) -> None:
        row, remaining = Signal.like(port.addr, reset_less=True), Signal.like(self.write.payload.beats)
        m.d.comb += [
            self.idle.eq(remaining == 0),
            self.write.ready.eq(self.idle),
            self.i.ready.eq(~self.idle),
            port.en.eq(self.i.valid & self.i.ready),
            port.addr.eq(row),
            port.data.eq(self.i.payload),
        ]
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += [row.eq(self.write.payload.address[_LOW:]), remaining.eq(self.write.payload.beats)]
        with m.Elif(port.en):
            m.d.sync += [row.eq(row + 1), remaining.eq(remaining - 1)]

    def _read(self, m: Module, port: memory.ReadPort) -> None:
        m.submodules.beats_read = fifo = Fifo(self.o.payload.shape(), _FIFO_DEPTH)
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        pipeline = Pipeline(m, {"address": 0, "memory": 1, "beat": self.LATENCY - 1})
        row, remaining = Signal.like(port.addr, reset_less=True), Signal.like(self.read.payload.beats)
        room, issue = Signal(range(_FIFO_DEPTH + 1), init=_FIFO_DEPTH), Signal()
        m.d.comb += [
            issue.eq((remaining != 0) & (room != 0)),
            port.addr.eq(row),
            self.read.ready.eq(remaining == 0),
            fifo.i.valid.eq(pipeline.place("address", issue, "issued").at("beat")),
            fifo.i.payload.last.eq(pipeline.place("address", remaining == 1, "last", reset_less=True).at("beat")),
            fifo.i.payload.data.eq(pipeline.place("memory", port.data, "read_data", reset_less=True).at("beat")),
        ]
        m.d.sync += room.eq(room + (self.o.valid & self.o.ready) - issue)
        with m.If(self.read.valid & self.read.ready):
            m.d.sync += [row.eq(self.read.payload.address[_LOW:]), remaining.eq(self.read.payload.beats)]
        with m.Elif(issue):
            m.d.sync += [row.eq(row + 1), remaining.eq(remaining - 1)]
