"""Reads of any length from an AXI4 bus, with the latency hidden behind bursts issued ahead."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_read import AxiReadSpec
from ..primitives.fifo import Fifo
from .bursts import AxiBursts, command
from .bus import Read


class AxiRead(wiring.Component):
    """Reads what it is told, in order.

    A burst is issued once there is room for the longest one, so that what arrives always has a place: ``bus.r.ready``
    is 1. ``arvalid`` comes three cycles after a command is accepted and `o` three cycles after a beat arrives. One beat
    a cycle as long as a command of n beats (two or more) comes every n cycles and the memory's latency is less than
    depth - burst cycles.

    From the first bad response or `stop` on, until reset, no burst is issued, `o` is silent and whatever arrives is
    dropped, commands too.

    Ports
    -----
    command : In stream of ``address`` (aligned to a beat), ``beats`` (16 bits, from 1 up)
    o : Out stream of ``data``, ``last`` (of its command)
    bus : Out `Read`
    stop : In
    idle : Out, no command in progress and no burst outstanding; beats may still wait in the FIFO
    error : Out, 0 or the first bad response
    error_address : Out, the address of the burst it answered
    """

    def __init__(self, spec: AxiReadSpec) -> None:
        self.spec = spec
        data, address = spec.data, spec.address
        super().__init__(
            {
                "command": In(command(address)),
                "o": Out(beats_read(data)),
                "bus": Out(Read(address, data)),
                "stop": In(1),
                "idle": Out(1),
                "error": Out(2),
                "error_address": Out(address),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.bursts = bursts = AxiBursts(spec.address, spec.data, spec.burst)
        m.submodules.beats = beats = Fifo(self.o.payload.shape(), spec.depth)
        # of the bursts outstanding, never more than the beats that they reserved
        place_bits = spec.address - bursts.beat_bits
        m.submodules.places = places = Fifo(data.StructLayout({"place": place_bits, "last": 1}), spec.depth)
        stopped, issue, free = Signal(), Signal(), Signal(range(spec.depth + 1), init=spec.depth)
        with m.If(self.stop):
            m.d.sync += stopped.eq(1)
        wiring.connect(m, wiring.flipped(self.command), bursts.command)

        # the longest burst's room, not this one's: no comparison
        ar, burst = self.bus.ar, bursts.o.payload
        room = free[bursts.length_bits :].any()
        m.d.comb += [
            bursts.drop.eq(stopped | self.stop),
            issue.eq(bursts.o.valid & room & (~ar.valid | ar.ready) & ~bursts.drop),
            bursts.o.ready.eq(issue),
            places.i.valid.eq(issue),
            places.i.payload.place.eq(burst.address[bursts.beat_bits :]),
            places.i.payload.last.eq(burst.last),
        ]
        with m.If(issue):
            m.d.sync += [ar.valid.eq(1), ar.payload.address.eq(burst.address), ar.payload.length.eq(burst.length)]
        with m.Elif(ar.ready):
            m.d.sync += ar.valid.eq(0)
        taken = self.o.valid & self.o.ready
        reserved = Mux(issue, ~burst.length[: bursts.length_bits], 0)  # -(length + 1)
        ones = issue.replicate(len(free) - bursts.length_bits)
        m.d.sync += free.eq(free + Cat(reserved, ones) + taken)

        arrived, beat = Signal(), Signal(self.bus.r.payload.shape())
        place = places.o.payload
        bad = arrived & beat.response[1]
        m.d.sync += [arrived.eq(self.bus.r.valid), beat.eq(self.bus.r.payload)]
        m.d.comb += [
            self.bus.r.ready.eq(1),
            places.o.ready.eq(arrived & beat.last),
            beats.i.valid.eq(arrived),  # once stopped, into a FIFO that nobody reads: its room is reserved
            beats.i.payload.data.eq(beat.data),
            beats.i.payload.last.eq(beat.last & place.last),
        ]
        with m.If(bad & ~self.error.any()):
            m.d.sync += [
                stopped.eq(1),
                self.error.eq(beat.response),
                self.error_address[bursts.beat_bits :].eq(place.place),
            ]

        m.d.comb += [
            self.o.valid.eq(beats.o.valid & ~stopped),
            self.o.payload.eq(beats.o.payload),
            beats.o.ready.eq(self.o.ready),
            self.idle.eq(places.empty & bursts.idle),
        ]
        return m


def beats_read(bits: int) -> stream.Signature:
    """What a reader brings: a beat, and whether it is its command's last."""
    return stream.Signature(data.StructLayout({"data": bits, "last": 1}))
