"""The core's registers as an AXI4-Lite subordinate, generated from the map in golden."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_registers import AxiRegistersSpec
from ...golden.axi.register_map import REGISTERS
from .bus import Lite, Response

_WORD = 32


class AxiRegisters(wiring.Component):
    """Registers between a host and the core.

    Address and data of a write may come in either order. Two cycles after the later of the two the register has its new
    value and the answer is there; so is a read's two cycles after its address. An address without a register and a
    write to a register that is only read are answered SLVERR; a register that is only written reads as 0.

    Ports
    -----
    bus : In `Lite`
    NAME : In(32) for each R register but ``signature``; Out(32) for each RW register
    command : Out(32), bytes that the host did not write are 0
    command_strobe : Out, in the first cycle of a new `command`
    finished : In, sets the interrupt's pending bit, and wins over a write that clears it
    interrupt_line : Out, pending and enabled
    """

    def __init__(self, spec: AxiRegistersSpec) -> None:
        self.spec = spec
        ports = {
            register.name: (In if register.access == "R" else Out)(_WORD)
            for register in REGISTERS
            if register.access in ("R", "RW") and register.name != "signature"
        }
        super().__init__(
            {
                "bus": In(Lite(REGISTERS.address_bits)),
                **ports,
                "command": Out(_WORD),
                "command_strobe": Out(1),
                "finished": In(1),
                "interrupt_line": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._pending = Signal()
        m.d.comb += self.interrupt_line.eq(self._pending & self.interrupt_enable[0])
        self._write(m)
        self._read(m)
        with m.If(self.finished):
            m.d.sync += self._pending.eq(1)
        return m

    def _write(self, m: Module) -> None:
        bus = self.bus
        have_address, have_data, act = Signal(), Signal(), Signal()
        word = Signal(REGISTERS.address_bits - 2)
        write = Signal(bus.w.payload.shape())
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
        m.d.sync += self.command_strobe.eq(0)

        strobed = Cat(bit.replicate(8) for bit in write.strobe)
        with m.If(act):
            m.d.sync += [
                have_address.eq(0),
                have_data.eq(0),
                bus.b.valid.eq(1),
                bus.b.payload.response.eq(Response.SLVERR),
            ]
            for register in REGISTERS:
                if register.access == "R":
                    continue
                with m.If(word == register.offset >> 2):
                    m.d.sync += bus.b.payload.response.eq(Response.OKAY)
                    if register.access == "RW":
                        port = getattr(self, register.name)
                        for lane, strobe in enumerate(write.strobe):
                            with m.If(strobe):  # a clock enable for each byte, and no multiplexer
                                m.d.sync += port.word_select(lane, 8).eq(write.data.word_select(lane, 8))
                    elif register.name == "command":
                        m.d.sync += [self.command.eq(write.data & strobed), self.command_strobe.eq(write.strobe.any())]
                    else:
                        with m.If(write.data[0] & write.strobe[0]):
                            m.d.sync += self._pending.eq(0)

    def _read(self, m: Module) -> None:
        bus = self.bus
        asked, word = Signal(), Signal(REGISTERS.address_bits - 2)
        m.d.comb += bus.ar.ready.eq(~asked & ~bus.r.valid)
        with m.If(bus.ar.valid & bus.ar.ready):
            m.d.sync += [asked.eq(1), word.eq(bus.ar.payload.address[2:])]
        with m.If(bus.r.ready):
            m.d.sync += bus.r.valid.eq(0)
        words: list[Value] = [Const(0, _WORD)] * (1 << len(word))
        for register in REGISTERS:
            words[register.offset >> 2] = self._shown(register.name)
        with m.If(~bus.r.valid):  # what is read before `asked` does no harm, and the multiplexer needs no hold
            m.d.sync += bus.r.payload.data.eq(Array(words)[word])
            with m.Switch(word):
                with m.Case(*(register.offset >> 2 for register in REGISTERS)):
                    m.d.sync += bus.r.payload.response.eq(Response.OKAY)
                with m.Default():
                    m.d.sync += bus.r.payload.response.eq(Response.SLVERR)
        with m.If(asked):
            m.d.sync += [asked.eq(0), bus.r.valid.eq(1)]

    def _shown(self, name: str) -> Value:
        if name == "signature":
            return Const(self.spec.signature, _WORD)
        if name == "interrupt":
            return self._pending
        return Const(0, _WORD) if REGISTERS[name].access == "W" else getattr(self, name)
