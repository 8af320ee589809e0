"""RTL of `grng`: eight LFSRs; combinational logic turns their state into a number."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ...golden.rng.grng import NUMBER, TERM, TERM_FRACTION, WIDTHS, GrngSpec, thresholds
from ..ports import members


class Grng(wiring.Component):
    """Gaussian random numbers from eight LFSRs, one a cycle.

    The path from the registers to the number is combinational, as published. For a faster clock, put a register after
    `o`.
    """

    def __init__(self, spec: GrngSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        seeded = enumerate(zip(WIDTHS, self.spec.seeds, strict=True))
        registers = [Signal(bits, name=f"register_{k}", init=seed) for k, (bits, seed) in seeded]
        with m.If(self.o.ready):
            for register, lfsr in zip(registers, self.spec.lfsrs, strict=True):
                tapped = Cat(register[tap - 1] for tap in lfsr.taps)
                m.d.sync += register.eq(Cat(~tapped.xor(), register[:-1]))
        m.d.comb += [self.o.valid.eq(1), self.o.payload.number.eq(number_of(m, registers, self.spec.form))]
        return m


def number_of(m: Module, registers: list[Signal], form: str) -> Value:
    """Number for a state of the eight registers, Q3.5, in the logic of `GrngSpec.form`."""
    return {"tree": _tree, "select": _select, "sum": _sum}[form](m, registers)


def _tree(m: Module, registers: list[Signal]) -> Value:
    """All comparators of a level in parallel; the number's higher bits select one, or the mirror image of one."""
    bits: list[Value] = []
    for level, (register, row) in enumerate(zip(registers, thresholds(), strict=True)):
        lower = [register < threshold for threshold in row]
        entries = [~bit for bit in lower] + (lower[::-1] if level else [])
        bit = Signal(name=f"bit_{level}")
        m.d.comb += bit.eq(_choose(entries, bits))
        bits.append(bit)
    # repeat the comparison of the sign: if bits of a number depend on its sign bit, simulators report a loop
    return Cat(*reversed(bits[1:]), registers[0] < thresholds()[0][0])


def _choose(entries: list[Value], select: list[Value]) -> Value:
    """Entry at the index given by the select bits, most significant first."""
    if len(entries) == 1:
        return entries[0]
    half = len(entries) // 2
    return Mux(select[0], _choose(entries[half:], select[1:]), _choose(entries[:half], select[1:]))


def _select(m: Module, registers: list[Signal]) -> Value:
    """One comparator per level, for the negative half of the tree; for the positive half the number is complemented."""
    walked: list[Value] = []
    for level, (register, row) in enumerate(zip(registers[1:], thresholds()[1:], strict=True), 1):
        constants = [Const(value, len(register)) for value in row]
        bit = Signal(name=f"walked_{level}")
        m.d.comb += bit.eq(register >= _choose(constants, walked))
        walked.append(bit)
    plus = registers[0] >= thresholds()[0][0]
    return Cat(*(bit ^ plus for bit in reversed(walked)), ~plus)


def _sum(m: Module, registers: list[Signal]) -> Value:
    """Sum of the terms, rounded half to even; the carry inputs of the first four adders add the eight half steps."""
    terms: list[Value] = [register[len(register) - TERM :].as_signed() for register in registers]
    pairs = list(zip(terms[::2], terms[1::2], strict=True))
    sums = [(Cat(Const(1, 1), a).as_signed() + Cat(Const(1, 1), b).as_signed()) >> 1 for a, b in pairs]
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    exact = Signal(sums[0].shape())
    m.d.comb += exact.eq(sums[0])
    drop = TERM_FRACTION - NUMBER.fraction
    tie = ~exact[:drop].any()
    return Cat(exact[drop] & ~tie, exact[drop + 1 :])[: NUMBER.width]
