"""Reads of one requester over several ports: each goes to the port that is told, and all beats come back in order."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register, replicas
from ..probe import probe
from .memory_port import ReadPort

OUTSTANDING = 32
"""Depth of the FIFO of reads whose beats have not all come."""


class ReadInterleave(wiring.Component):
    """Spread reads over two ports or more.

    The ports work on their reads at the same time, and what one of them gives early waits there: each is to have room
    for all beats that are asked for. Beats come in the cycle in which a port gives them, one a cycle as long as the
    port of the read that is next has some. Behind a read of one beat a cycle is lost.

    Parameters
    ----------
    ports : int
    address : int
        Bits of a byte address.
    most : int
        Most beats of a read.
    direct : bool
        Commands of several requesters reach each port in their order, as none waits here; otherwise one for each port
        does, which cuts long paths.

    Attributes
    ----------
    read : In, `ReadPort`
        The requester. No command is taken while the beats of 34 are missing. Beats come three cycles after their
        command at the earliest. If `direct`, a command is passed on in its cycle. Otherwise that is a cycle later, one
        in two cycles for each port.
    port : In
        Number of the port that the command on offer goes to; stable with it.
    port0, port1, ... : Out, `ReadPort`
        The ports.
    """

    def __init__(
        self, ports: int, address: int = ADDRESS_BITS, most: int = (1 << BEAT_COUNT_BITS) - 1, direct: bool = False
    ) -> None:
        self.ports, self.most, self.direct = ports, most, direct
        each = {f"port{number}": Out(ReadPort(address)) for number in range(ports)}
        super().__init__({"read": In(ReadPort(address)), "port": In(range(ports)), **each})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked, given = self.read.command, self.read.beats
        ports = [getattr(self, f"port{number}") for number in range(self.ports)]
        count = range(self.most + 1)
        entry = data.StructLayout({"port": len(self.port), "beats": count})
        m.submodules.reads = reads = Fifo(entry, OUTSTANDING)
        # the read whose beats come, the last one of which is `final`
        active, final = Signal(), Signal(reset_less=True)
        # for handshakes, and for the many bits of a beat
        turn, turn_of_beat = replicas(2, "turn", self.port.shape())
        left, moves, follows = Signal(count, reset_less=True), Signal(), Signal()
        # the FIFO learns a cycle later that its read has begun: whether a beat is taken is known late
        begins, popped = Signal(), Signal()
        m.d.comb += [
            reads.i.payload.port.eq(self.port),
            reads.i.payload.beats.eq(asked.payload.beats),
            reads.i.valid.eq(asked.valid & asked.ready),
            given.valid.eq(active & Array(port.beats.valid for port in ports)[turn]),
            given.payload.eq(Array(port.beats.payload for port in ports)[turn_of_beat]),
            moves.eq(given.valid & given.ready),
            follows.eq(~active | (moves & final)),
            begins.eq(follows & reads.o.valid & ~popped),
            reads.o.ready.eq(popped),
            *(port.beats.ready.eq(active & (turn == at) & given.ready) for at, port in enumerate(ports)),
        ]
        self._commands(m, [port.command for port in ports], reads)
        following = reads.o.payload
        m.d.sync += popped.eq(begins)
        with m.If(follows):
            m.d.sync += [
                active.eq(reads.o.valid & ~popped),
                *(each.eq(following.port) for each in (turn, turn_of_beat)),
                left.eq(following.beats),
                final.eq(following.beats == 1),
            ]
        with m.Elif(moves):
            m.d.sync += [left.eq(left - 1), final.eq(left == 2)]
        probe(self, active=active, final=final, left=left, turn=turn, begins=begins)
        return m

    def _commands(self, m: Module, commands: list[wiring.PureInterface], reads: Fifo) -> None:
        """Pass each command on to its port."""
        asked = self.read.command
        if self.direct:
            m.d.comb += asked.ready.eq(reads.i.ready & Array(command.ready for command in commands)[self.port])
            for number, command in enumerate(commands):
                given = asked.valid & reads.i.ready & (self.port == number)
                m.d.comb += [command.valid.eq(given), command.payload.eq(asked.payload)]
            return
        m.d.comb += asked.ready.eq(reads.i.ready & ~Array(command.valid for command in commands)[self.port])
        for number, command in enumerate(commands):
            # a register, as both ends of a command are far away
            payload = data_register(m, command.payload, f"payload{number}")
            with m.If(command.ready):
                m.d.sync += command.valid.eq(0)
            with m.If(reads.i.valid & (self.port == number)):
                m.d.sync += [command.valid.eq(1), payload.eq(asked.payload)]
