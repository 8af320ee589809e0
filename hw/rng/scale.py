"""RTL of `scale`: a reference generator and a table of factors."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import memory, wiring

from ...golden.rng.scale import ScaleSpec
from ..ports import members, withheld


class Scale(wiring.Component):
    """Scale factors for words of `urng`, one a cycle: a reference generator's state addresses a table.

    The register holds the state of the offered factor. A load withdraws the factor until the bit marked `last`. `scan`
    outputs the state of the factor offered before the load.
    """

    def __init__(self, spec: ScaleSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = withheld(m, self.load)
        m.d.comb += [self.load.ready.eq(1), self.o.valid.eq(~held)]
        if self.spec.varies:
            self._look_up(m, self.load.valid | (self.o.ready & ~held))
        else:
            m.d.comb += [self.scan.bit.eq(self.load.payload.bit), self.o.payload.scale.eq(int(self.spec.table[0]))]
        return m

    def _look_up(self, m: Module, advance: Value) -> None:
        spec, lfsr = self.spec, self.spec.urng.lfsr
        reference = Signal(spec.urng.bits, init=spec.reference(0))
        offset = Signal(spec.rom_width, init=int(spec.rom[spec.reference(0)]))
        head = Signal()
        m.d.comb += head.eq((reference & lfsr.transition()[0]).xor())
        with m.If(self.load.valid):
            m.d.comb += head.eq(self.load.payload.bit)
        upcoming = Cat(head, reference[:-1])

        style = {"ram_style": "block"} if spec.in_block_ram else {}
        m.submodules.rom = rom = memory.Memory(
            shape=spec.rom_width, depth=len(spec.rom), init=spec.rom.tolist(), attrs=style
        )
        port = rom.read_port(domain="comb")
        m.d.comb += port.addr.eq(upcoming)
        # synthesis maps this register to the block RAM's output latch, with its reset value as SRVAL
        with m.If(advance):
            m.d.sync += [reference.eq(upcoming), offset.eq(port.data)]
        m.d.comb += [self.scan.bit.eq(reference[-1]), self.o.payload.scale.eq(offset + int(spec.table.min()))]
