"""AXI4 write manager."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_write import AxiWriteSpec
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register
from .bursts import BurstSplitter, command
from .bus import Write
from .first_error import first_error


class AxiWrite(wiring.Component):
    """Execute write commands on an AXI4 bus, in order.

    `bus.aw` is valid two cycles after the last beat of a burst has entered, `bus.w` three. Within a burst `bus.w.valid`
    stays high. Bursts of two beats or more follow each other without a gap, as long as `i` keeps up.

    After the first bad response (SLVERR or DECERR) or `stop`, until reset, issued bursts are completed, no further
    burst is issued, and commands and beats of `i` are accepted and discarded. A burst beyond the bus's last address is
    not issued, and counts as DECERR.

    Parameters
    ----------
    spec : AxiWriteSpec
        Widths of the bus, longest burst, depths of the FIFOs. At most ``outstanding + 1`` bursts await a response.
    address : int, optional
        Bits of a byte address in commands, by default as on the bus.

    Attributes
    ----------
    bus : Out, `Write`
        AXI4 write channels, as manager. All bytes are strobed; `b.ready` is always 1.
    stop, hold, error, error_address
        As in `AxiRead`.
    idle : Out(1)
        All commands are written and have responses; after a stop, all issued bursts have responses.
    """

    def __init__(self, spec: AxiWriteSpec, address: int = 0) -> None:
        self.spec, self._address = spec, address or spec.address
        data = spec.data
        super().__init__(
            {
                "command": In(command(self._address)),
                "i": In(stream.Signature(_layout(data))),
                "bus": Out(Write(spec.address, data)),
                **dict.fromkeys(("stop", "hold"), In(1)),
                "idle": Out(1),
                "error": Out(2),
                "error_address": Out(spec.address + (self._address > spec.address)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.splitter = splitter = BurstSplitter(self._address, spec.data, spec.burst, bus=spec.address)
        m.submodules.beats = beats = Fifo(_layout(spec.data), spec.depth)
        m.submodules.outstanding = outstanding = Fifo(spec.address - splitter.beat_bits, spec.outstanding)
        stopped, room, ready, issue = Signal(), Signal(), Signal(), Signal()
        with m.If(self.stop):
            m.d.sync += stopped.eq(1)
        wiring.connect(m, wiring.flipped(self.command), splitter.command)
        m.d.comb += [
            self.i.ready.eq(beats.i.ready | stopped),
            beats.i.valid.eq(self.i.valid & ~stopped),
            beats.i.payload.eq(self.i.payload),
        ]

        aw, burst = self.bus.aw, splitter.o.payload
        length = burst.length[: splitter.length_bits]
        unclaimed = Signal(range(spec.depth + 2))
        waiting, following = Signal(), Signal(splitter.length_bits)
        m.d.comb += [
            splitter.drop.eq(stopped | self.stop),
            room.eq((~aw.valid | aw.ready) & ~waiting & outstanding.i.ready & ~(splitter.beyond | self.hold)),
            # timing: `valid` of the splitter settles late in the cycle and is not used here
            ready.eq((unclaimed > length) & room & ~splitter.drop),
            splitter.o.ready.eq(ready),
            issue.eq(splitter.o.valid & ready),
            outstanding.i.valid.eq(issue),
            outstanding.i.payload.eq(burst.address[splitter.beat_bits :]),
        ]
        claimed = Cat(Mux(issue, ~length, 0), issue.replicate(len(unclaimed) - len(length)))  # -(length + 1)
        m.d.sync += unclaimed.eq(unclaimed + claimed + (beats.i.valid & beats.i.ready))
        payload = data_register(m, aw.payload, "aw_payload")
        with m.If(issue):
            m.d.sync += [aw.valid.eq(1), payload.address.eq(burst.address), payload.length.eq(burst.length)]
        with m.Elif(aw.ready):
            m.d.sync += aw.valid.eq(0)
        self._send(m, beats, issue, length, waiting, following)

        b = self.bus.b
        m.d.comb += [
            b.ready.eq(1),
            outstanding.o.ready.eq(b.valid),
            self.idle.eq(outstanding.empty & splitter.idle),
        ]
        bad = b.valid & b.payload.response[1]
        first_error(m, self, splitter, stopped, bad, b.payload.response, outstanding.o.payload)
        return m

    def _send(self, m: Module, beats: Fifo, issue: Signal, length: Signal, waiting: Signal, following: Signal) -> None:
        """Send the data of issued bursts from the FIFO; a burst is in progress, and one more may wait."""
        w = self.bus.w
        sending, remaining = Signal(), Signal.like(following)
        final = Signal()
        m.d.comb += [
            final.eq(remaining == 0),
            w.valid.eq(sending),
            w.payload.data.eq(beats.o.payload.data),
            w.payload.strobe.eq(~0),
            w.payload.last.eq(final),
            beats.o.ready.eq(sending & w.ready),
        ]
        with m.If(issue):
            m.d.sync += [waiting.eq(1), following.eq(length)]
        with m.If(~sending | (w.ready & final)):
            m.d.sync += [sending.eq(waiting), remaining.eq(following)]
            with m.If(waiting):
                m.d.sync += waiting.eq(0)
        with m.Elif(w.ready):
            m.d.sync += remaining.eq(remaining - 1)


def _layout(bits: int) -> data.StructLayout:
    return data.StructLayout({"data": bits})
