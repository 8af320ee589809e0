"""Transfer commands, AXI4 bursts and their splitter."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT_COUNT_BITS


def command(address: int, count: int = BEAT_COUNT_BITS) -> stream.Signature:
    """Stream of transfer commands for `AxiRead`, `AxiWrite` and `CacheRam`, with `address` and `count` bits.

    Members of the payload
    ----------------------
    address : unsigned
        Byte address of the first beat, a multiple of a beat's bytes.
    beats : `count` bits
        Number of beats, at least 1.
    """
    return stream.Signature(data.StructLayout({"address": address, "beats": count}))


def bursts(address: int) -> stream.Signature:
    """Stream of AXI4 bursts.

    Members of the payload
    ----------------------
    address : unsigned
        Byte address of the first beat.
    length : 8 bits
        Number of beats minus 1, as in AxLEN.
    last : 1 bit
        The burst is the last of its command.
    """
    return stream.Signature(data.StructLayout({"address": address, "length": 8, "last": 1}))


class BurstSplitter(wiring.Component):
    """Split transfer commands at multiples of the longest burst.

    A burst that ends at such a multiple never crosses a page of 4 KiB, and its length needs no adder. A command takes
    one cycle more than it has bursts; the first burst is offered two cycles after acceptance.

    Parameters
    ----------
    address, data : int
        Bits of a byte address and of a beat.
    burst : int
        Maximum number of beats in a burst, a power of two.
    count : int
        Bits of a command's number of beats.
    bus : int, optional
        Bits of a byte address on the bus, by default `address`.

    Attributes
    ----------
    command : In, stream of `command`
        Commands to split, in order. `ready` is high while no command is in progress, and during `drop`.
    drop : In(1)
        Discard the current command, the offered burst, and new commands. From the next cycle `o.valid` is low; during
        `drop` the receiver must not accept a burst.
    o : Out, stream of `bursts`
        Bursts of all commands in order, with the address bits of the bus.
    beyond : Out(1)
        With `o`: the burst lies beyond the last address of the bus.
    idle : Out(1)
        No command in progress and no burst offered.
    """

    def __init__(
        self, address: int = 32, data: int = 128, burst: int = 64, count: int = BEAT_COUNT_BITS, bus: int = 0
    ) -> None:
        self.beat_bits = (data // 8).bit_length() - 1
        self.length_bits = (burst - 1).bit_length()
        self._address, self._count, self._bus = address, count, bus or address
        super().__init__(
            {
                "command": In(command(address, count)),
                "drop": In(1),
                "o": Out(bursts(self._bus)),
                **dict.fromkeys(("beyond", "idle"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, beat_bits, burst = self.length_bits, self.beat_bits, self.o.payload
        valid = Signal()
        beat_address = Signal(self._address - beat_bits, reset_less=True)
        remaining = Signal(self._count, reset_less=True)  # beats left, minus 1
        to_boundary = ~beat_address[:bits]  # beats up to the next multiple of the longest burst, minus 1
        more, step = Signal(), Signal()
        m.d.comb += [
            more.eq(remaining > to_boundary),
            step.eq(valid & (~self.o.valid | self.o.ready)),
            self.command.ready.eq(~valid | self.drop),
            self.idle.eq(~valid & ~self.o.valid),
        ]
        with m.If(self.drop):
            m.d.sync += valid.eq(0)
        with m.Elif(~valid):
            m.d.sync += [
                valid.eq(self.command.valid),
                beat_address.eq(self.command.payload.address[beat_bits:]),
                remaining.eq(self.command.payload.beats - 1),
            ]
        with m.Elif(step):
            m.d.sync += [
                valid.eq(more),
                beat_address.eq(Cat(Const(0, bits), beat_address[bits:] + 1)),
                remaining.eq(remaining - to_boundary - 1),
            ]
        m.d.sync += self.o.valid.eq(~self.drop & (step | (self.o.valid & ~self.o.ready)))
        first = Signal(self._bus - beat_bits, name="first_beat", reset_less=True)
        length, last = Signal(bits, name="length", reset_less=True), Signal(name="last", reset_less=True)
        m.d.comb += [burst.address[beat_bits:].eq(first), burst.length.eq(length), burst.last.eq(last)]
        with m.If(step):
            m.d.sync += [first.eq(beat_address), length.eq(Mux(more, to_boundary, remaining[:bits])), last.eq(~more)]
        if self._bus < self._address:
            with m.If(step):
                m.d.sync += self.beyond.eq(beat_address[len(first) :].any())
        return m
