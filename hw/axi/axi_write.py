"""Writes of any length to an AXI4 bus; a burst is announced once all of it is here."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_write import AxiWriteSpec
from ..primitives.fifo import Fifo
from .bursts import AxiBursts, command
from .bus import Write


class AxiWrite(wiring.Component):
    """Writes what it is told, in order.

    ``awvalid`` comes two cycles after the last beat of a burst has entered, ``wvalid`` three. Within a burst ``wvalid``
    never falls, and bursts of two beats or more follow each other without a gap as long as `i` keeps up.
    ``bus.b.ready`` is 1.

    From the first bad response or `stop` on, until reset, the bursts already announced are finished, nothing more is,
    and commands and `i` are taken and dropped.

    Ports
    -----
    command : In stream of ``address`` (aligned to a beat), ``beats`` (16 bits, from 1 up)
    i : In stream of ``data``; may come before its command
    bus : Out `Write`
    stop : In
    idle : Out, every command written and responded to; once stopped, every burst that was announced
    error : Out, 0 or the first bad response
    error_address : Out, the address of the burst it answered
    """

    def __init__(self, spec: AxiWriteSpec) -> None:
        self.spec = spec
        data, address = spec.data, spec.address
        super().__init__(
            {
                "command": In(command(address)),
                "i": In(stream.Signature(_layout(data))),
                "bus": Out(Write(address, data)),
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
        m.submodules.beats = beats = Fifo(_layout(spec.data), spec.depth)
        m.submodules.places = places = Fifo(spec.address - bursts.beat_bits, spec.outstanding)
        stopped, room, issue = Signal(), Signal(), Signal()
        with m.If(self.stop):
            m.d.sync += stopped.eq(1)
        wiring.connect(m, wiring.flipped(self.command), bursts.command)
        m.d.comb += [
            self.i.ready.eq(beats.i.ready | stopped),
            beats.i.valid.eq(self.i.valid & ~stopped),
            beats.i.payload.eq(self.i.payload),
        ]

        aw, burst = self.bus.aw, bursts.o.payload
        length = burst.length[: bursts.length_bits]
        unclaimed = Signal(range(spec.depth + 2))
        waiting, following = Signal(), Signal(bursts.length_bits)  # the burst after the one that is being sent
        m.d.comb += [
            bursts.drop.eq(stopped | self.stop),
            room.eq((~aw.valid | aw.ready) & ~waiting & places.i.ready),
            issue.eq(bursts.o.valid & (unclaimed > length) & room & ~bursts.drop),
            bursts.o.ready.eq(issue),
            places.i.valid.eq(issue),
            places.i.payload.eq(burst.address[bursts.beat_bits :]),
        ]
        claimed = Cat(Mux(issue, ~length, 0), issue.replicate(len(unclaimed) - len(length)))  # -(length + 1)
        m.d.sync += unclaimed.eq(unclaimed + claimed + (beats.i.valid & beats.i.ready))
        with m.If(issue):
            m.d.sync += [aw.valid.eq(1), aw.payload.address.eq(burst.address), aw.payload.length.eq(burst.length)]
        with m.Elif(aw.ready):
            m.d.sync += aw.valid.eq(0)
        self._send(m, beats, issue, length, waiting, following)

        b = self.bus.b
        m.d.comb += [
            b.ready.eq(1),
            places.o.ready.eq(b.valid),
            self.idle.eq(places.empty & bursts.idle),
        ]
        with m.If(b.valid & b.payload.response[1] & ~self.error.any()):
            m.d.sync += [
                stopped.eq(1),
                self.error.eq(b.payload.response),
                self.error_address[bursts.beat_bits :].eq(places.o.payload),
            ]
        return m

    def _send(self, m: Module, beats: Fifo, issue: Signal, length: Signal, waiting: Signal, following: Signal) -> None:
        """The data of announced bursts, which are in the FIFO: one burst that is being sent and one that waits."""
        w = self.bus.w
        sending, left = Signal(), Signal.like(following)
        final = Signal()
        m.d.comb += [
            final.eq(left == 0),
            w.valid.eq(sending),
            w.payload.data.eq(beats.o.payload.data),
            w.payload.strobe.eq(~0),
            w.payload.last.eq(final),
            beats.o.ready.eq(sending & w.ready),
        ]
        with m.If(issue):
            m.d.sync += [waiting.eq(1), following.eq(length)]
        with m.If(~sending | (w.ready & final)):
            m.d.sync += [sending.eq(waiting), left.eq(following)]
            with m.If(waiting):
                m.d.sync += waiting.eq(0)
        with m.Elif(w.ready):
            m.d.sync += left.eq(left - 1)


def _layout(bits: int) -> data.StructLayout:
    return data.StructLayout({"data": bits})
