"""RTL of `urng`: a ring of LFSRs with serial load and scan of the state."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring

from ...golden.rng.urng import UrngSpec
from ..ports import elements, members, withheld


class Urng(wiring.Component):
    """Uniform random numbers from a ring of n maximal-length LFSRs, a word of n numbers a cycle.

    The rotation of the ring is wiring. During a load the registers form one shift register, through two spare inputs of
    each feedback LUT. Like a reset, a load withdraws the offered word. No word is valid until the bit marked `last`.
    """

    def __init__(self, spec: UrngSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        registers = [Signal(spec.bits, name=f"register_{i}", init=seed) for i, seed in enumerate(spec.seeds)]
        order = spec.chain()
        before = dict(zip(order[1:], order[:-1], strict=True))
        rows = spec.lfsr.transition(spec.leap)

        def head(i: int, k: int, stepped: Value) -> Value:
            link = before.get((i, k))
            serial = registers[link[0]][link[1]] if link else self.load.payload.bit
            taken = Signal(name=f"head_{i}_{k}")
            m.d.comb += taken.eq(stepped)
            with m.If(self.load.valid):
                m.d.comb += taken.eq(serial)
            return taken

        held = withheld(m, self.load)
        with m.If(self.load.valid | (self.o.ready & ~held)):
            for i, register in enumerate(registers):
                neighbour = registers[(i + 1) % spec.n]
                stepped = [(neighbour & row).xor() for row in rows[: spec.leap]]
                heads = [head(i, k, bit) for k, bit in enumerate(stepped)]
                m.d.sync += register.eq(Cat(*heads, neighbour[: spec.bits - spec.leap]))

        last = order[-1]
        m.d.comb += [
            self.load.ready.eq(1),
            self.scan.bit.eq(registers[last[0]][last[1]]),
            self.o.valid.eq(~held),
        ]
        numbers = spec.streams()["o"].fields[0]
        for number, register in zip(elements(self.o.payload.number, numbers), registers, strict=True):
            m.d.comb += number.eq(register)
        return m
