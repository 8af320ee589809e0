"""One reader or writer, several who ask."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..primitives.fifo import Fifo
from .axi_read import beats_read
from .bursts import command

BEATS = stream.Signature(128)
_COMMANDS = 16
"""That a reader may be given ahead."""


class ReadArbiter(wiring.Component):
    """Commands in order of rank, the first one's first; what comes goes to whoever asked for it.

    Parameters
    ----------
    names : sequence of str

    Attributes
    ----------
    NAME_read, NAME_beats
        Of each who asks: its commands, and the beats that they bring.
    command, i
        Of the reader.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        members = {f"{name}_read": In(command(32)) for name in names}
        members |= {f"{name}_beats": Out(BEATS) for name in names}
        super().__init__({**members, "command": Out(command(32)), "i": In(beats_read(128))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.turns = turns = Fifo(unsigned((len(self.names) - 1).bit_length() or 1), _COMMANDS)
        asked = [getattr(self, f"{name}_read") for name in self.names]
        m.d.comb += [
            self.command.valid.eq(Cat(ask.valid for ask in asked).any() & turns.i.ready),
            turns.i.valid.eq(self.command.valid & self.command.ready),
            turns.o.ready.eq(self.i.valid & self.i.ready & self.i.payload.last),
        ]
        for number, ask in reversed(list(enumerate(asked))):
            with m.If(ask.valid):
                m.d.comb += [self.command.payload.eq(ask.payload), turns.i.payload.eq(number)]
        free = self.command.ready & turns.i.ready
        for number, ask in enumerate(asked):
            m.d.comb += ask.ready.eq(free & ~Cat(before.valid for before in asked[:number]).any())
        for number, name in enumerate(self.names):
            beats = getattr(self, f"{name}_beats")
            mine = turns.o.valid & (turns.o.payload == number)
            m.d.comb += [beats.payload.eq(self.i.payload.data), beats.valid.eq(self.i.valid & mine)]
            with m.If(mine):
                m.d.comb += self.i.ready.eq(beats.ready)
        return m


class WriteArbiter(wiring.Component):
    """A command in order of rank, the first one's first, then its beats, then the next command.

    Parameters
    ----------
    names : sequence of str

    Attributes
    ----------
    NAME_write, NAME_data
        Of each who asks: its commands, and their beats.
    command, o
        Of the writer.
    idle
        No beats of a command are missing.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        members = {f"{name}_write": In(command(32)) for name in names}
        members |= {f"{name}_data": In(BEATS) for name in names}
        super().__init__({**members, "command": Out(command(32)), "o": Out(BEATS), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked = [getattr(self, f"{name}_write") for name in self.names]
        turn, left = Signal(len(self.names)), Signal.like(self.command.payload.beats)
        m.d.comb += [self.idle.eq(~turn.any()), self.command.valid.eq(self.idle & Cat(a.valid for a in asked).any())]
        for number, ask in reversed(list(enumerate(asked))):
            m.d.comb += ask.ready.eq(self.idle & self.command.ready & ~Cat(a.valid for a in asked[:number]).any())
            with m.If(ask.valid):
                m.d.comb += self.command.payload.eq(ask.payload)
            with m.If(ask.valid & ask.ready):
                m.d.sync += [turn.eq(1 << number), left.eq(ask.payload.beats)]
        for number, name in enumerate(self.names):
            beats = getattr(self, f"{name}_data")
            with m.If(turn[number]):
                m.d.comb += [
                    self.o.valid.eq(beats.valid),
                    self.o.payload.eq(beats.payload),
                    beats.ready.eq(self.o.ready),
                ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 1):
                m.d.sync += turn.eq(0)
        return m
