"""Reads of one requester over two ports: each goes to the port of its address, and all beats come back in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.axi.bus import ADDRESS_BITS
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register, replicas
from .memory_port import OFFSET_BITS, ReadPort

OUTSTANDING = 32
"""Depth of the FIFO of reads whose beats have not all come."""


class ReadInterleave(wiring.Component):
    """Spread reads over two ports: blocks of `burst` beats of the memory are those of the one and the other in turn.

    A read goes to the port of the block that it begins in. One that is longer is right, too, but then the ports do not
    share the work. The ports work on their reads at the same time, and what one of them gives early waits there: each
    is to have room for all beats that are asked for. Beats come in the cycle in which a port gives them, one a cycle as
    long as the port of the read that is next has some. Behind a read of one beat a cycle is lost.

    Parameters
    ----------
    burst : int
        Beats of a block, a power of two.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    read : In, `ReadPort`
        The requester. A command is passed on a cycle later, one in two cycles for each port. None is taken while the
        beats of 34 are missing. Those of a command come three cycles after it at the earliest.
    even, odd : Out, `ReadPort`
        The ports of blocks of an even and of an odd number.
    """

    def __init__(self, burst: int, address: int = ADDRESS_BITS) -> None:
        self._place = OFFSET_BITS + exact_log2(burst)
        super().__init__({"read": In(ReadPort(address)), "even": Out(ReadPort(address)), "odd": Out(ReadPort(address))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked, given = self.read.command, self.read.beats
        entry = data.StructLayout({"odd": 1, "beats": len(asked.payload.beats)})
        m.submodules.reads = reads = Fifo(entry, OUTSTANDING)
        # the read whose beats come, the last one of which is `final`
        active, final = Signal(), Signal(reset_less=True)
        # for handshakes, and for the many bits of a beat
        odd, of_odd = replicas(2, "odd")
        left, moves, follows = Signal(len(asked.payload.beats), reset_less=True), Signal(), Signal()
        # the FIFO learns a cycle later that its read has begun: whether a beat is taken is known late
        begins, popped = Signal(), Signal()
        chosen = asked.payload.address[self._place]
        m.d.comb += [
            reads.i.payload.odd.eq(chosen),
            reads.i.payload.beats.eq(asked.payload.beats),
            reads.i.valid.eq(asked.valid & asked.ready),
            asked.ready.eq(reads.i.ready & ~Mux(chosen, self.odd.command.valid, self.even.command.valid)),
            given.valid.eq(active & Mux(odd, self.odd.beats.valid, self.even.beats.valid)),
            given.payload.eq(Mux(of_odd, self.odd.beats.payload, self.even.beats.payload)),
            moves.eq(given.valid & given.ready),
            follows.eq(~active | (moves & final)),
            begins.eq(follows & reads.o.valid & ~popped),
            reads.o.ready.eq(popped),
        ]
        for name, own, turn in (("even", ~chosen, ~odd), ("odd", chosen, odd)):
            command, beats = getattr(self, name).command, getattr(self, name).beats
            m.d.comb += beats.ready.eq(active & turn & given.ready)
            # a register, as both ends of a command are far away
            payload = data_register(m, command.payload, f"{name}_payload")
            with m.If(command.ready):
                m.d.sync += command.valid.eq(0)
            with m.If(reads.i.valid & own):
                m.d.sync += [command.valid.eq(1), payload.eq(asked.payload)]
        following = reads.o.payload
        m.d.sync += popped.eq(begins)
        with m.If(follows):
            m.d.sync += [
                active.eq(reads.o.valid & ~popped),
                *(port.eq(following.odd) for port in (odd, of_odd)),
                left.eq(following.beats),
                final.eq(following.beats == 1),
            ]
        with m.Elif(moves):
            m.d.sync += [left.eq(left - 1), final.eq(left == 2)]
        return m
