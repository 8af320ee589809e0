"""AXI4 read manager."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_read import AxiReadSpec
from ..primitives.fifo import Fifo
from ..primitives.registers import data_register
from .bursts import BurstSplitter, command
from .bus import Read
from .first_error import first_error


class AxiRead(wiring.Component):
    """Execute read commands on an AXI4 bus, in order.

    A burst is issued once the FIFO has space for the longest burst, so every arriving beat can be stored. `bus.ar` is
    valid three cycles after a command was accepted, `o` three cycles after a beat arrived. Throughput is a beat a cycle
    if a command of n >= 2 beats comes every n cycles, and the memory latency is below depth - burst cycles.

    After the first bad response (SLVERR or DECERR) or `stop`, until reset, no burst is issued, `o` is not valid, and
    beats and commands are accepted and discarded. A burst beyond the bus's last address is not issued, and counts as
    DECERR.

    Parameters
    ----------
    spec : AxiReadSpec
        Widths of the bus, longest burst, depth of the FIFO.
    address : int, optional
        Bits of a byte address in commands, by default as on the bus.

    Attributes
    ----------
    bus : Out, `Read`
        AXI4 read channels, as manager. `r.ready` is always 1.
    stop : In(1)
        Issue no more bursts, from this cycle until reset.
    hold : In(1)
        Issue no burst in this cycle; commands wait.
    idle : Out(1)
        No command in progress and no burst outstanding; beats may still be in the FIFO.
    error : Out(2)
        0, or the first bad response; held until reset.
    error_address : Out, `spec.address` bits, and one more if commands have more
        Byte address of the failed burst, with 0 in the bits within a beat. The additional bit is 1 beyond the bus's
        range. Valid while `error` is not 0.
    """

    def __init__(self, spec: AxiReadSpec, address: int = 0) -> None:
        self.spec, self._address = spec, address or spec.address
        data = spec.data
        super().__init__(
            {
                "command": In(command(self._address)),
                "o": Out(beats_read(data)),
                "bus": Out(Read(spec.address, data)),
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
        m.submodules.beats = beats = Fifo(self.o.payload.shape(), spec.depth)
        # addresses of outstanding bursts, at most `depth`, as each burst reserves space for a beat or more
        entry = data.StructLayout({"beat_address": spec.address - splitter.beat_bits, "last": 1})
        m.submodules.outstanding = outstanding = Fifo(entry, spec.depth)
        stopped, issue, free = Signal(), Signal(), Signal(range(spec.depth + 1), init=spec.depth)
        with m.If(self.stop):
            m.d.sync += stopped.eq(1)
        wiring.connect(m, wiring.flipped(self.command), splitter.command)

        # wait for space for the longest burst, whatever this burst's length: this needs no comparator
        ar, burst = self.bus.ar, splitter.o.payload
        room = free[splitter.length_bits :].any()
        m.d.comb += [
            splitter.drop.eq(stopped | self.stop),
            issue.eq(splitter.o.valid & room & (~ar.valid | ar.ready) & ~(splitter.drop | splitter.beyond | self.hold)),
            splitter.o.ready.eq(issue),
            outstanding.i.valid.eq(issue),
            outstanding.i.payload.beat_address.eq(burst.address[splitter.beat_bits :]),
            outstanding.i.payload.last.eq(burst.last),
        ]
        payload = data_register(m, ar.payload, "ar_payload")
        with m.If(issue):
            m.d.sync += [ar.valid.eq(1), payload.address.eq(burst.address), payload.length.eq(burst.length)]
        with m.Elif(ar.ready):
            m.d.sync += ar.valid.eq(0)
        taken = self.o.valid & self.o.ready
        reserved = Mux(issue, ~burst.length[: splitter.length_bits], 0)  # -(length + 1)
        ones = issue.replicate(len(free) - splitter.length_bits)
        m.d.sync += free.eq(free + Cat(reserved, ones) + taken)

        arrived, beat = Signal(), Signal(self.bus.r.payload.shape(), reset_less=True)
        answered = outstanding.o.payload
        bad = arrived & beat.response[1]
        m.d.sync += [arrived.eq(self.bus.r.valid), beat.eq(self.bus.r.payload)]
        m.d.comb += [
            self.bus.r.ready.eq(1),
            outstanding.o.ready.eq(arrived & beat.last),
            beats.i.valid.eq(arrived),  # also after a stop, as space is reserved
            beats.i.payload.data.eq(beat.data),
            beats.i.payload.last.eq(beat.last & answered.last),
        ]
        first_error(m, self, splitter, stopped, bad, beat.response, answered.beat_address)
        m.d.comb += [
            self.o.valid.eq(beats.o.valid & ~stopped),
            self.o.payload.eq(beats.o.payload),
            beats.o.ready.eq(self.o.ready),
            self.idle.eq(outstanding.empty & splitter.idle),
        ]
        return m


def beats_read(bits: int) -> stream.Signature:
    """Stream of read beats: ``data`` of `bits` bits, ``last`` for a command's last beat."""
    return stream.Signature(data.StructLayout({"data": bits, "last": 1}))
