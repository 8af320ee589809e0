"""Reads of one requester over several ports."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register, replicas
from ..probe import probe
from .memory_port import ReadPort

OUTSTANDING = 32
"""Maximum number of reads with outstanding beats in the FIFO."""


class ReadInterleave(wiring.Component):
    """Distribute reads over two or more ports.

    Ports work in parallel. Beats that arrive early wait at their port, so each port needs space for all beats requested
    from it. Beats pass combinationally, one a cycle while the port of the current read has beats. A read of a single
    beat costs one more cycle.

    Parameters
    ----------
    most : int
        Maximum number of beats in a read.
    direct : bool
        Pass commands combinationally, so that commands of several requesters reach each port in order. Otherwise a
        register per port cuts long paths.

    Attributes
    ----------
    read : In, `ReadPort`
        The requester. No command is accepted while 34 reads have outstanding beats. Beats come at least three cycles
        after their command. If not `direct`, commands pass a cycle later, at most one in two cycles per port.
    port : In
        Target port of the offered command; stable with the command.
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
        asked, merged = self.read.command, self.read.beats
        ports = [getattr(self, f"port{number}") for number in range(self.ports)]
        count = range(self.most + 1)
        entry = data.StructLayout({"port": len(self.port), "beats": count})
        m.submodules.reads = reads = Fifo(entry, OUTSTANDING)
        # `active`: a read is in progress; `final`: at its last beat
        active, final = Signal(), Signal(reset_less=True)
        # port of the current read: a copy for handshakes, a copy for the many bits of a beat
        turn, turn_of_beat = replicas(2, "turn", self.port.shape())
        remaining, moves, follows = Signal(count, reset_less=True), Signal(), Signal()
        # timing: a beat's acceptance settles late in the cycle, so the FIFO is popped one cycle later
        begins, popped = Signal(), Signal()
        m.d.comb += [
            reads.i.payload.port.eq(self.port),
            reads.i.payload.beats.eq(asked.payload.beats),
            reads.i.valid.eq(asked.valid & asked.ready),
            merged.valid.eq(active & Array(port.beats.valid for port in ports)[turn]),
            merged.payload.eq(Array(port.beats.payload for port in ports)[turn_of_beat]),
            moves.eq(merged.valid & merged.ready),
            follows.eq(~active | (moves & final)),
            begins.eq(follows & reads.o.valid & ~popped),
            reads.o.ready.eq(popped),
            *(port.beats.ready.eq(active & (turn == number) & merged.ready) for number, port in enumerate(ports)),
        ]
        self._commands(m, [port.command for port in ports], reads)
        following = reads.o.payload
        m.d.sync += popped.eq(begins)
        with m.If(follows):
            m.d.sync += [
                active.eq(reads.o.valid & ~popped),
                *(each.eq(following.port) for each in (turn, turn_of_beat)),
                remaining.eq(following.beats),
                final.eq(following.beats == 1),
            ]
        with m.Elif(moves):
            m.d.sync += [remaining.eq(remaining - 1), final.eq(remaining == 2)]
        probe(self, active=active, final=final, left=remaining, turn=turn, begins=begins)
        return m

    def _commands(self, m: Module, commands: list[wiring.PureInterface], reads: Fifo) -> None:
        asked = self.read.command
        if self.direct:
            m.d.comb += asked.ready.eq(reads.i.ready & Array(command.ready for command in commands)[self.port])
            for number, command in enumerate(commands):
                selected = asked.valid & reads.i.ready & (self.port == number)
                m.d.comb += [command.valid.eq(selected), command.payload.eq(asked.payload)]
            return
        m.d.comb += asked.ready.eq(reads.i.ready & ~Array(command.valid for command in commands)[self.port])
        for number, command in enumerate(commands):
            # timing: requester and port are far apart on the device, so the command is registered
            payload = data_register(m, command.payload, f"payload{number}")
            with m.If(command.ready):
                m.d.sync += command.valid.eq(0)
            with m.If(reads.i.valid & (self.port == number)):
                m.d.sync += [command.valid.eq(1), payload.eq(asked.payload)]
