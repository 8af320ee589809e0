"""AXI4-Lite subordinate, generated from a register map."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_registers import AxiRegistersSpec
from ...golden.axi.register_map import SIGNATURE, Register
from .bus import Lite, Response

_WORD = 32


class AxiRegisters(wiring.Component):
    """Registers between a host and the core.

    Address and data of a write may arrive in either order. `LATENCY` cycles after the later of both, the register
    changes and the response is valid; a read's response is valid `LATENCY` cycles after its address. Unknown addresses
    and writes to read-only registers are answered SLVERR. Write-only registers read as 0. At most every second cycle a
    write takes effect.

    Attributes
    ----------
    bus : In, `Lite`
        AXI4-Lite bus of the host.
    NAME : In(32), for each R register but `signature`
        Word read by the host, sampled after the read's address is accepted.
    NAME : Out(32), for each RW register
        Word written by the host, initially the reset value.
    NAME, NAME_strobe : Out(32), Out(1), for each W register
        Last word written, with 0 for bytes without AXI strobe; NAME_strobe is 1 in the first cycle of a new word.
    EVENT : In(1), for each field of each W1C register
        Set the bit; takes precedence over a clearing write.
    NAME_line : Out(1), for each W1C register
        High while a bit is set, and enabled in register NAME_enable if present.
    NAME : Out(32), for each W1S register
        Bits set by the host, until `clear`.
    locked : In(1)
        While high, writes to the map's locked registers are answered OKAY and ignored. Sampled a cycle before the
        register would change. A core that raises `locked` from a flip-flop, in the cycle after a strobe, ignores all
        writes after the strobe's.
    clear : In(1)
        Reset all registers that the host writes, and pending bits. Takes precedence over events and over a write of the
        next cycle. Accesses in progress are answered normally.
    """

    LATENCY = 2
    """Cycles to the response: of a write from the later of address and data, of a read from the address."""

    def __init__(self, spec: AxiRegistersSpec) -> None:
        self.spec, self.map = spec, spec.map
        ports = {item.name: In(_WORD) for item in self.map.accessed("R")}
        ports |= {item.name: Out(_WORD, init=item.reset) for item in self.map.accessed("RW")}
        for item in self.map.accessed("W"):
            ports |= {item.name: Out(_WORD), f"{item.name}_strobe": Out(1)}
        ports |= {event.name: In(1) for _, event in self.map.events}
        ports |= {f"{item.name}_line": Out(1) for item in self.map.accessed("W1C")}
        ports |= {item.name: Out(_WORD) for item in self.map.accessed("W1S")}
        super().__init__({"bus": In(Lite(self.map.address_bits)), **ports, "locked": In(1), "clear": In(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._pending = {
            item.name: Signal(max(event.low for event in item.fields) + 1, name=f"{item.name}_pending")
            for item in self.map.accessed("W1C")
        }
        for item in self.map.accessed("W1C"):
            pending, enable = self._pending[item.name], self.map.enable(item)
            enabled = getattr(self, enable.name)[: len(pending)] if enable else Const(-1, len(pending))
            m.d.comb += getattr(self, f"{item.name}_line").eq((pending & enabled).any())
        self._write(m)
        self._read(m)
        for item, event in self.map.events:
            with m.If(getattr(self, event.name)):
                m.d.sync += self._pending[item.name][event.low].eq(1)
        self._clear(m)
        return m

    def _clear(self, m: Module) -> None:
        written = [getattr(self, item.name) for item in self.map.accessed("W", "RW", "W1S")]
        strobes = [getattr(self, f"{item.name}_strobe") for item in self.map.accessed("W")]
        with m.If(self.clear):
            m.d.sync += [register.eq(register.init) for register in (*written, *strobes, *self._pending.values())]

    def _write(self, m: Module) -> None:
        bus = self.bus
        have_address, have_data, act = Signal(), Signal(), Signal()
        word = Signal(self.map.address_bits - 2)
        write = Signal(bus.w.payload.shape())
        # The next address and data are accepted only after `act`, so `act` is never high twice in a row. This makes
        # the lock tight: a core raises `locked` in the cycle after a strobe, two cycles after its write's `act`.
        m.d.comb += [
            bus.aw.ready.eq(~have_address),
            bus.w.ready.eq(~have_data),
            act.eq(have_address & have_data & ~bus.b.valid),
        ]
        with m.If(bus.aw.valid & bus.aw.ready):
            m.d.sync += [have_address.eq(1), word.eq(bus.aw.payload.address[2:])]
        with m.If(bus.w.valid & bus.w.ready):
            m.d.sync += [have_data.eq(1), write.eq(bus.w.payload)]
        with m.If(bus.b.ready):
            m.d.sync += bus.b.valid.eq(0)
        for item in self.map.accessed("W"):
            m.d.sync += getattr(self, f"{item.name}_strobe").eq(0)

        with m.If(act):
            m.d.sync += [
                have_address.eq(0),
                have_data.eq(0),
                bus.b.valid.eq(1),
                bus.b.payload.response.eq(Response.SLVERR),
            ]
            for item in self.map.accessed("W", "RW", "W1C", "W1S"):
                with m.If(word == item.offset >> 2):
                    m.d.sync += bus.b.payload.response.eq(Response.OKAY)
                with m.If((word == item.offset >> 2) & (~self.locked if item.locked else 1)):
                    self._store(m, item, write.data, write.strobe)

    def _store(self, m: Module, item: Register, data: Value, strobe: Value) -> None:
        """Write a word to a register, with a clock enable per byte."""
        if item.access == "RW":
            port = getattr(self, item.name)
            for lane, enable in enumerate(strobe):
                with m.If(enable):
                    m.d.sync += port.word_select(lane, 8).eq(data.word_select(lane, 8))
        elif item.access == "W":
            strobed = Cat(bit.replicate(8) for bit in strobe)
            m.d.sync += [
                getattr(self, item.name).eq(data & strobed),
                getattr(self, f"{item.name}_strobe").eq(strobe.any()),
            ]
        else:
            bits = self._pending[item.name] if item.access == "W1C" else getattr(self, item.name)
            for field in item.fields:
                with m.If(data[field.low] & strobe[field.low // 8]):
                    m.d.sync += bits[field.low].eq(item.access == "W1S")

    def _read(self, m: Module) -> None:
        bus = self.bus
        asked, word = Signal(), Signal(self.map.address_bits - 2)
        m.d.comb += bus.ar.ready.eq(~asked & ~bus.r.valid)
        with m.If(bus.ar.valid & bus.ar.ready):
            m.d.sync += [asked.eq(1), word.eq(bus.ar.payload.address[2:])]
        with m.If(bus.r.ready):
            m.d.sync += bus.r.valid.eq(0)
        words: list[Value] = [Const(0, _WORD)] * (1 << len(word))
        for item in self.map:
            words[item.offset >> 2] = self._shown(item)
        with m.If(~bus.r.valid):  # not only with `asked`, so that the multiplexer needs no enable
            m.d.sync += bus.r.payload.data.eq(Array(words)[word])
            with m.Switch(word):
                with m.Case(*(item.offset >> 2 for item in self.map)):
                    m.d.sync += bus.r.payload.response.eq(Response.OKAY)
                with m.Default():
                    m.d.sync += bus.r.payload.response.eq(Response.SLVERR)
        with m.If(asked):
            m.d.sync += [asked.eq(0), bus.r.valid.eq(1)]

    def _shown(self, item: Register) -> Value:
        if item.name == SIGNATURE:
            return Const(self.spec.signature, _WORD)
        if item.access == "W1C":
            return self._pending[item.name]
        return Const(0, _WORD) if item.access == "W" else getattr(self, item.name)
