"""RTL of `gaussian_array`: generators chained into shift registers, with copies of their state in LUTs."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.rng.gaussian_array import GaussianArraySpec
from ...golden.rng.grng import NUMBER, WIDTHS, GrngSpec
from ..ports import elements, members, shape, withheld
from .grng import number_of


class ShiftedGenerator(wiring.Component):
    """A generator of `grng` whose registers also form one shift register.

    Attributes
    ----------
    step : In, 1
        Go to the next number.
    shift : In, 1
        Shift by a bit; takes precedence over `step`.
    into : In, 1
        Serial input of the first register.
    falls_out : Out, 1
        Serial output: highest bit of the last register.
    number : Out, Q3.5
        Number of the current state.
    """

    def __init__(self, spec: GrngSpec) -> None:
        self.spec = spec
        super().__init__(
            {
                "step": In(1),
                "shift": In(1),
                "into": In(1),
                "falls_out": Out(1),
                "number": Out(shape(NUMBER)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        seeded = enumerate(zip(WIDTHS, self.spec.seeds, strict=True))
        registers = [Signal(bits, name=f"register_{k}", init=seed) for k, (bits, seed) in seeded]
        serial: Value = self.into
        for k, (register, lfsr) in enumerate(zip(registers, self.spec.lfsrs, strict=True)):
            head = Signal(name=f"head_{k}")
            m.d.comb += head.eq(Mux(self.shift, serial, ~Cat(register[tap - 1] for tap in lfsr.taps).xor()))
            with m.If(self.step | self.shift):
                m.d.sync += register.eq(Cat(head, register[:-1]))
            serial = register[-1]
        m.d.comb += [self.falls_out.eq(serial), self.number.eq(number_of(m, registers, self.spec.form))]
        return m


class GaussianArray(wiring.Component):
    """n Gaussian random numbers, a word a cycle, with replay from a mark.

    A replay, a mark or a reset shifts the state of each ring once around, in `spec.replay_cycles` cycles. Meanwhile no
    word is valid, and a load waits. The path from registers to numbers is combinational, as in `Grng`.
    """

    def __init__(self, spec: GaussianArraySpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        generators = [ShiftedGenerator(generator_spec) for generator_spec in spec.generators]
        turning, restoring = Signal(init=1), Signal()
        self._turn(m, turning, restoring)
        shift, step = Signal(), Signal()
        m.d.comb += [
            self.load.ready.eq(~turning),
            self.o.valid.eq(~turning & ~withheld(m, self.load)),
            shift.eq(turning | self.load.valid),
            step.eq(self.o.valid & self.o.ready),
            self.scan.bit.eq(generators[-1].falls_out),
        ]
        numbers = elements(self.o.payload.number, spec.streams()["o"].fields[0])
        for j, (generator, number) in enumerate(zip(generators, numbers, strict=True)):
            m.submodules[f"generator_{j}"] = generator
            m.d.comb += [generator.shift.eq(shift), generator.step.eq(step), number.eq(generator.number)]
        before: Value = self.load.payload.bit
        for first in range(0, spec.n, spec.ring):
            before = self._ring(m, generators[first : first + spec.ring], f"copy_{first}", before, turning, restoring)
        return m

    def _turn(self, m: Module, turning: Signal, restoring: Signal) -> None:
        """Shift the state of the rings once around, after a mark, a replay or a reset."""
        length = self.spec.replay_cycles
        remaining = Signal(range(length), init=length - 1)
        with m.If(turning):
            m.d.sync += remaining.eq(remaining - 1)
            with m.If(remaining == 0):
                m.d.sync += [turning.eq(0), remaining.eq(length - 1)]
        with m.Elif(self.o.valid & self.o.ready & (self.replay.bit | self.mark.bit)):
            m.d.sync += [turning.eq(1), restoring.eq(self.replay.bit)]

    def _ring(
        self, m: Module, ring: list[ShiftedGenerator], name: str, before: Value, turning: Signal, restoring: Signal
    ) -> Value:
        """Connect a shift register, for a copy of the state, in parallel to generators; returns their serial output."""
        copy = Signal(self.spec.replay_cycles, name=name, reset_less=True)
        into, falls_out = Signal(name=f"into_{name}"), ring[-1].falls_out
        m.d.comb += into.eq(Mux(turning, Mux(restoring, copy[-1], falls_out), before))
        with m.If(ring[0].shift):
            m.d.sync += copy.eq(Cat(into, copy[:-1]))
        for generator, bit in zip(ring, (into, *(generator.falls_out for generator in ring)), strict=False):
            m.d.comb += generator.into.eq(bit)
        return falls_out
