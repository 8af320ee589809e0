"""RTL of `pool`: the row on offer belongs to the address in the register; a second address is the mark."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring

from ..golden.pool import PoolSpec
from .ports import elements, members


class Pool(wiring.Component):
    """p numbers a cycle out of block RAM.

    Valid from the second cycle after reset, one row a cycle, replays included: with `replay` the row after this
    transfer is the one at the mark, with `mark` the row after it becomes the mark (a replay wins). A load withdraws
    the row on offer; the row loaded is the mark.
    """

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        loading = self.load.valid
        # the block RAM is first read in the cycle after reset: until then the address is the one before the first
        address = Signal(spec.address_bits, init=int(spec.addresses[-1]))
        start = Signal(spec.address_bits, init=int(spec.addresses[0]))
        primed = Signal()
        go_back = Signal()
        m.d.sync += primed.eq(1)
        m.d.comb += go_back.eq(self.replay.bit & ~loading)

        upcoming = Signal(spec.address_bits)
        m.d.comb += upcoming.eq(Mux(go_back, start, self._next(address)))
        advance = loading | self.o.ready | ~primed
        with m.If(advance):
            m.d.sync += address.eq(upcoming)
        with m.If(loading | (self.mark.bit & self.o.ready & primed)):
            m.d.sync += start.eq(upcoming)

        m.submodules.rom = rom = memory.Memory(
            shape=spec.p * spec.bits, depth=len(spec.rom), init=spec.rom, attrs={"ram_style": "block"}
        )
        port = rom.read_port()
        m.d.comb += [
            port.addr.eq(upcoming),
            port.en.eq(advance),
            self.load.ready.eq(1),
            self.scan.bit.eq(address[-1]),
            self.o.valid.eq(primed & ~loading),
        ]
        numbers = spec.streams()["o"].fields[0]
        for j, number in enumerate(elements(self.o.payload.number, numbers)):
            m.d.comb += number.eq(port.data[j * spec.bits : (j + 1) * spec.bits])
        return m

    def _next(self, address: Value) -> Value:
        """The address after this one, or, in a load, this one with a bit shifted in."""
        loading, bit = self.load.valid, self.load.payload.bit
        if self.spec.lfsr:
            feedback = (address & self.spec.lfsr.transition()[0]).xor()
            return Cat(Mux(loading, bit, feedback), address[:-1])
        counted = Mux(address == self.spec.rows - 1, 0, address + 1)[: len(address)]
        return Mux(loading, Cat(bit, address[:-1]), counted)
