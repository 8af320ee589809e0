"""RTL of `scale`: a reference generator and its table; the factor on offer belongs to the state in the register."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory, wiring

from ..golden.scale import ScaleSpec
from .ports import members


class Scale(wiring.Component):
    """The factor of each cycle.

    One factor a cycle, valid from the first cycle after reset (from the second where the table is block RAM). A load
    withdraws it; the state that falls out at `scan` is the one of the factor last on offer.

    Parameters
    ----------
    loaded_first : bool
        Whether there is always a load before the first factor is taken: nothing need be read after reset then.
    """

    def __init__(self, spec: ScaleSpec, *, loaded_first: bool = False) -> None:
        self.spec = spec
        self._behind = 0 if loaded_first else spec.latency
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.load.ready.eq(1), self.o.valid.eq(~self.load.valid)]
        if self.spec.varies:
            self._look_up(m)
        else:
            m.d.comb += [self.scan.bit.eq(self.load.payload.bit), self.o.payload.scale.eq(int(self.spec.table[0]))]
        return m

    def _look_up(self, m: Module) -> None:
        spec, lfsr = self.spec, self.spec.urng.lfsr
        # block RAM has no reset value for what it read last: it starts one step early and reads once before it is valid
        reference = Signal(spec.urng.bits, init=spec.reference(-self._behind))
        primed = Signal(init=1 - self._behind)
        offset = Signal(spec.rom_width, init=int(spec.rom[spec.reference(0)]))
        advance = self.load.valid | self.o.ready | ~primed

        head = Signal()
        m.d.comb += head.eq((reference & lfsr.transition()[0]).xor())
        with m.If(self.load.valid):
            m.d.comb += head.eq(self.load.payload.bit)
        upcoming = Cat(head, reference[:-1])
        with m.If(advance):
            m.d.sync += reference.eq(upcoming)
        m.d.comb += self.scan.bit.eq(reference[-1])

        style = {"rom_style": "block"} if spec.in_block_ram else {}
        m.submodules.rom = rom = memory.Memory(
            shape=spec.rom_width, depth=len(spec.rom), init=spec.rom.tolist(), attrs=style
        )
        if spec.in_block_ram:
            m.d.sync += primed.eq(1)
            m.d.comb += self.o.valid.eq(primed & ~self.load.valid)
            port = rom.read_port()
            m.d.comb += [port.addr.eq(upcoming), port.en.eq(advance), offset.eq(port.data)]
        else:
            port = rom.read_port(domain="comb")
            m.d.comb += port.addr.eq(upcoming)
            with m.If(advance):
                m.d.sync += offset.eq(port.data)
        m.d.comb += self.o.payload.scale.eq(offset + int(spec.table.min()))
