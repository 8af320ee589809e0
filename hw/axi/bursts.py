"""Commands of any length as AXI bursts."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT_COUNT_BITS


def command(address: int) -> stream.Signature:
    """What `AxiRead` and `AxiWrite` are told: a byte address, aligned to a beat, and a number of beats from 1 up."""
    return stream.Signature(data.StructLayout({"address": address, "beats": BEAT_COUNT_BITS}))


def bursts(address: int) -> stream.Signature:
    """A burst: as the address channels want it, and whether it is its command's last."""
    return stream.Signature(data.StructLayout({"address": address, "length": 8, "last": 1}))


class AxiBursts(wiring.Component):
    """Cuts commands at multiples of the longest burst.

    A burst that ends there cannot cross 4 KiB, and finding its length takes no adder. A command takes one cycle more
    than it has bursts.

    Parameters
    ----------
    address, data : int
        Bits.
    burst : int
        Most beats of a burst, a power of two.

    Ports
    -----
    command : In stream of ``address``, ``beats``
    drop : In, forget the command in progress and take others only to forget them
    o : Out stream of ``address``, ``length`` (beats - 1), ``last`` (of its command)
    idle : Out, no command in progress and no burst on offer
    """

    def __init__(self, address: int = 32, data: int = 128, burst: int = 64) -> None:
        self.beat_bits = (data // 8).bit_length() - 1
        self.length_bits = (burst - 1).bit_length()
        self._address = address
        super().__init__({"command": In(command(address)), "drop": In(1), "o": Out(bursts(address)), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, beat_bits, burst = self.length_bits, self.beat_bits, self.o.payload
        valid = Signal()
        place = Signal(self._address - beat_bits)
        beyond = Signal(BEAT_COUNT_BITS)  # beats still to go, less one
        to_end = ~place[:bits]  # the same up to the next multiple of the longest burst
        more, step = Signal(), Signal()
        m.d.comb += [
            more.eq(beyond > to_end),
            step.eq(valid & (~self.o.valid | self.o.ready)),
            self.command.ready.eq(~valid | self.drop),
            self.idle.eq(~valid & ~self.o.valid),
        ]
        with m.If(self.drop):
            m.d.sync += valid.eq(0)
        with m.Elif(~valid):
            m.d.sync += [
                valid.eq(self.command.valid),
                place.eq(self.command.payload.address[beat_bits:]),
                beyond.eq(self.command.payload.beats - 1),
            ]
        with m.Elif(step):
            m.d.sync += [
                valid.eq(more),
                place.eq(Cat(Const(0, bits), place[bits:] + 1)),
                beyond.eq(beyond - to_end - 1),
            ]
        m.d.sync += self.o.valid.eq(~self.drop & (step | (self.o.valid & ~self.o.ready)))
        with m.If(step):
            m.d.sync += [
                burst.address[beat_bits:].eq(place),
                burst.length.eq(Mux(more, to_end, beyond[:bits])),
                burst.last.eq(~more),
            ]
        return m
