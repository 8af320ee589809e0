"""Read-ahead buffer."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT
from ...axi.bursts import BurstSplitter, command
from ...axi.memory_port import ReadPort
from ...primitives.ready_fifo import ReadyFifo
from ...probe import probe


class ReadAhead(wiring.Component):
    """Prefetch the beats of commands, a beat a cycle, into a queue.

    A read is requested only once the queue has space for it, so the consumer never stalls a shared memory port.

    Parameters
    ----------
    depth : int
        Number of beats in the queue, a power of two, at least two bursts.
    burst : int
        Maximum number of beats in a read, a power of two.
    address, count : int
        Bits of a byte address, and of a command's number of beats.

    Attributes
    ----------
    command : In, stream of ``address``, ``beats`` (`count` bits, from 1 up)
        Reads to prefetch.
    port : Out, `ReadPort`
        Reads, split at multiples of `burst`; at most one in two cycles.
    o : Out, stream of 128 bits
        Beats of all commands in order, two cycles after their arrival.
    """

    def __init__(self, depth: int, burst: int, address: int, count: int) -> None:
        self.depth, self.burst, self.address, self.count = depth, burst, address, count
        super().__init__(
            {
                "command": In(command(address, count)),
                "port": Out(ReadPort(address)),
                "o": Out(stream.Signature(8 * BEAT)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.splitter = splitter = BurstSplitter(self.address, 8 * BEAT, self.burst, self.count)
        m.submodules.beats = beats = ReadyFifo(8 * BEAT, self.depth)
        wiring.connect(m, wiring.flipped(self.command), splitter.command)
        wiring.connect(m, wiring.flipped(self.port.beats), beats.i)
        wiring.connect(m, beats.o, wiring.flipped(self.o))
        asks, burst = self.port.command, splitter.o.payload
        # wait for space for the longest read, whatever this read's length: this needs no comparator
        free = Signal(range(self.depth + 1), init=self.depth)
        room = free[splitter.length_bits :].any()
        # timing: `ready` settles late in the cycle, so an accepted read counts a cycle later
        asked, taken = Signal(), Signal()
        length = burst.length[: splitter.length_bits] + 1
        m.d.comb += [
            asks.valid.eq(splitter.o.valid & room & ~asked),
            asks.payload.address.eq(burst.address),
            asks.payload.beats.eq(length),
            splitter.o.ready.eq(asked),
            taken.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [asked.eq(asks.valid & asks.ready), free.eq(free - Mux(asked, length, 0) + taken)]
        probe(self, asked=asked, length=length, taken=taken, free=free)
        return m
