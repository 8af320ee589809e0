"""Arbiters with fixed priority."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS, BEAT
from ..primitives.fifo import Fifo
from .axi_read import beats_read
from .bursts import command
from .memory_port import BEATS, ReadPort, WritePort

_OUTSTANDING = 16
"""Maximum number of read commands with outstanding beats."""


def _grant(m: Module, commands: Sequence[stream.Interface], granted: stream.Interface, free: Value) -> Value:
    """Pass on the command of the highest rank while `free` is high; returns the number of its requester."""
    number = Signal(range(max(len(commands), 2)))
    m.d.comb += granted.valid.eq(Cat(each.valid for each in commands).any() & free)
    for rank, each in reversed(list(enumerate(commands))):
        higher = Cat(other.valid for other in commands[:rank]).any()
        m.d.comb += each.ready.eq(free & granted.ready & ~higher)
        with m.If(each.valid):
            m.d.comb += [granted.payload.eq(each.payload), number.eq(rank)]
    return number


class ReadArbiter(wiring.Component):
    """Pass on read commands by fixed priority, and route returning beats to their requesters.

    A requester waits while a requester of higher rank has a command. Commands follow each other without a lost cycle. A
    command waiting at `command` is replaced when a command of higher rank arrives.

    Parameters
    ----------
    names : sequence of str
        Requesters, highest rank first.

    Attributes
    ----------
    NAME_read : In, `ReadPort`, for each of `names`
        Commands of a requester, and their beats in order. `beats.valid` follows `i.valid` combinationally.
    command : Out, stream of ``address`` (`address` bits), ``beats`` (16 bits)
        Commands for the reader, in the cycle in which a requester offers them, unless 17 commands have outstanding
        beats.
    i : In, stream of ``data`` (128 bits), ``last`` (1 bit, the last beat of its command)
        Beats of all commands in order, from `AxiRead` or `CacheRam`.
    """

    def __init__(self, names: Sequence[str], address: int = ADDRESS_BITS) -> None:
        self.names = names
        ports = {f"{name}_read": In(ReadPort(address)) for name in names}
        super().__init__({**ports, "command": Out(command(address)), "i": In(beats_read(8 * BEAT))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = [getattr(self, f"{name}_read") for name in self.names]
        m.submodules.requesters = requesters = Fifo(unsigned((len(ports) - 1).bit_length() or 1), _OUTSTANDING)
        m.d.comb += [
            requesters.i.payload.eq(_grant(m, [port.command for port in ports], self.command, requesters.i.ready)),
            requesters.i.valid.eq(self.command.valid & self.command.ready),
            requesters.o.ready.eq(self.i.valid & self.i.ready & self.i.payload.last),
        ]
        for number, port in enumerate(ports):
            selected = requesters.o.valid & (requesters.o.payload == number)
            m.d.comb += [port.beats.payload.eq(self.i.payload.data), port.beats.valid.eq(self.i.valid & selected)]
            with m.If(selected):
                m.d.comb += self.i.ready.eq(port.beats.ready)
        return m


class WriteArbiter(wiring.Component):
    """Pass on a write command by fixed priority, then all its beats, then the next command.

    Priority is as in `ReadArbiter`. A command takes a cycle in addition to its beats. A command waiting at `command` is
    replaced when a command of higher rank arrives.

    Attributes
    ----------
    NAME_write : In, `WritePort`, for each of `names`
        Commands of a requester, and their beats, accepted after the command.
    command : Out, stream of ``address`` (`address` bits), ``beats`` (16 bits)
        Commands for the writer, in the cycle in which a requester offers them, while `idle` is high.
    o : Out, stream of 128 bits
        Beats of all commands in order, in the cycle in which the requester offers them.
    idle : Out(1)
        All beats of accepted commands have passed.
    """

    def __init__(self, names: Sequence[str], address: int = ADDRESS_BITS) -> None:
        self.names = names
        ports = {f"{name}_write": In(WritePort(address)) for name in names}
        super().__init__({**ports, "command": Out(command(address)), "o": Out(BEATS), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = [getattr(self, f"{name}_write") for name in self.names]
        selected, remaining = Signal(len(ports)), Signal.like(self.command.payload.beats)
        m.d.comb += self.idle.eq(~selected.any())
        _grant(m, [port.command for port in ports], self.command, self.idle)
        for number, port in enumerate(ports):
            with m.If(port.command.valid & port.command.ready):
                m.d.sync += [selected.eq(1 << number), remaining.eq(port.command.payload.beats)]
            with m.If(selected[number]):
                m.d.comb += [
                    self.o.valid.eq(port.beats.valid),
                    self.o.payload.eq(port.beats.payload),
                    port.beats.ready.eq(self.o.ready),
                ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += remaining.eq(remaining - 1)
            with m.If(remaining == 1):
                m.d.sync += selected.eq(0)
        return m
