"""RTL of `pool`: rows of random numbers in block RAM, addressed by a counter or an LFSR."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring

from ...golden.rng.pool import PoolSpec
from ..ports import elements, members, withheld


class Pool(wiring.Component):
    """Stored random numbers: a row of p numbers a cycle from block RAM, also at a replay.

    One register holds the address of the offered row, another the address of the mark. A load withdraws the offered
    row; the loaded row becomes the mark.
    """

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        loading = self.load.valid
        address = Signal(spec.address_bits, init=int(spec.addresses[0]))
        start = Signal(spec.address_bits, init=int(spec.addresses[0]))
        row = Signal(spec.p * spec.bits, init=spec.rom[int(spec.addresses[0])])
        held = withheld(m, self.load)
        taken = self.o.ready & ~held

        upcoming = Signal(spec.address_bits)
        m.d.comb += upcoming.eq(Mux(self.replay.bit & ~loading, start, self._next(address)))
        m.submodules.rom = rom = memory.Memory(
            shape=spec.p * spec.bits, depth=len(spec.rom), init=spec.rom, attrs={"ram_style": "block"}
        )
        port = rom.read_port(domain="comb")
        m.d.comb += port.addr.eq(upcoming)
        # synthesis maps `row` to the block RAM's output latch, with its reset value as SRVAL
        with m.If(loading | taken):
            m.d.sync += [address.eq(upcoming), row.eq(port.data)]
        with m.If(loading | (taken & self.mark.bit)):
            m.d.sync += start.eq(upcoming)

        m.d.comb += [self.load.ready.eq(1), self.scan.bit.eq(address[-1]), self.o.valid.eq(~held)]
        numbers = spec.streams()["o"].fields[0]
        for j, number in enumerate(elements(self.o.payload.number, numbers)):
            m.d.comb += number.eq(row[j * spec.bits : (j + 1) * spec.bits])
        return m

    def _next(self, address: Value) -> Value:
        """Next address; during a load, the address with a bit shifted in."""
        loading, bit = self.load.valid, self.load.payload.bit
        if self.spec.lfsr:
            feedback = (address & self.spec.lfsr.transition()[0]).xor()
            return Cat(Mux(loading, bit, feedback), address[:-1])
        counted = Mux(address == self.spec.rows - 1, 0, address + 1)[: len(address)]
        return Mux(loading, Cat(bit, address[:-1]), counted)
