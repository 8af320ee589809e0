"""A memory on the chip that takes the same commands as those outside."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ..primitives.fifo import Fifo
from ..primitives.pipeline import delayed
from .axi_read import beats_read
from .bursts import command

_ROOM = 8
"""Beats that have been read and not been taken."""


class CacheRam(wiring.Component):
    """Reads and writes, a beat a cycle each; what is written may be read in the cycle after `idle`.

    Parameters
    ----------
    beats : int

    Attributes
    ----------
    read, o
        As `AxiRead` has them; the first beat follows its command by `LATENCY` + 3 cycles.
    write, i, idle
        As `AxiWrite` has them.
    """

    LATENCY = 4
    """Registers of the memory: where it is many blocks deep, one behind each few of them."""

    def __init__(self, beats: int) -> None:
        self.beats = beats
        super().__init__(
            {
                "read": In(command(32)),
                "o": Out(beats_read(128)),
                "write": In(command(32)),
                "i": In(stream.Signature(128)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = store = memory.Memory(
            shape=unsigned(128), depth=self.beats, init=[], attrs={"ram_style": "ultra"}
        )
        into, port = store.write_port(), store.read_port()
        low = (BEAT - 1).bit_length()

        place, left = Signal.like(into.addr), Signal.like(self.write.payload.beats)
        m.d.comb += [
            self.idle.eq(left == 0),
            self.write.ready.eq(self.idle),
            self.i.ready.eq(~self.idle),
            into.en.eq(self.i.valid & self.i.ready),
            into.addr.eq(place),
            into.data.eq(self.i.payload),
        ]
        with m.If(self.write.valid & self.write.ready):
            m.d.sync += [place.eq(self.write.payload.address[low:]), left.eq(self.write.payload.beats)]
        with m.Elif(into.en):
            m.d.sync += [place.eq(place + 1), left.eq(left - 1)]

        m.submodules.ready = ready = Fifo(self.o.payload.shape(), _ROOM)
        wiring.connect(m, ready.o, wiring.flipped(self.o))
        row, more = Signal.like(port.addr), Signal.like(self.read.payload.beats)
        room, issue = Signal(range(_ROOM + 1), init=_ROOM), Signal()
        m.d.comb += [
            issue.eq((more != 0) & (room != 0)),
            port.addr.eq(row),
            self.read.ready.eq(more == 0),
            ready.i.valid.eq(delayed(m, issue, self.LATENCY, "issued")),
            ready.i.payload.last.eq(delayed(m, more == 1, self.LATENCY, "last")),
            ready.i.payload.data.eq(delayed(m, port.data, self.LATENCY - 1, "read")),
        ]
        m.d.sync += room.eq(room + (self.o.valid & self.o.ready) - issue)
        with m.If(self.read.valid & self.read.ready):
            m.d.sync += [row.eq(self.read.payload.address[low:]), more.eq(self.read.payload.beats)]
        with m.Elif(issue):
            m.d.sync += [row.eq(row + 1), more.eq(more - 1)]
        return m
