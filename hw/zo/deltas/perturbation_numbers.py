"""Perturbation numbers as integers in the scale of the deltas."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Format
from ....golden.rng.gaussian_array import GaussianArraySpec
from ....golden.rng.generators import Generator
from ....golden.rng.pezo import PezoSpec
from ....golden.zo.deltas import PerturbationTable
from ...ports import elements, layout, shape
from ...primitives.mux_tree import mux_tree
from ...primitives.rounding import RoundSaturate

_FEW = range(-2, 2)
"""Differences of a factor from a power of two for which one adder computes the product."""


class PerturbationNumbers(wiring.Component):
    """Convert a part of a generator word to integers of `golden.zo.deltas.PerturbationTable`; no handshake.

    Parameters
    ----------
    parts : int
        Parts of a word, 1 or 4. Part p starts at number ``p width``; the last part is padded with zeros.

    Attributes
    ----------
    i : In, payload of the generator's stream ``o``
    part : In, range(parts)
        Part of the word.
    o : Out, array of `width` numbers, `PerturbationTable.format`
        The perturbation's integers, `latency` cycles later.
    n, width : int
        Numbers of a word and of a part.
    latency : int
        1; 4 if the products have more fraction bits than `PerturbationTable.format`.
    """

    def __init__(self, spec: Generator, parts: int = 1) -> None:
        self.spec, self.format, self.parts = spec, PerturbationTable(spec).format, parts
        self.n, self.width = spec.width, -(-spec.width // parts)
        self.drop = spec.fraction_bits - self.format.fraction
        self.latency = 1 + (RoundSaturate.LATENCY if self.drop else 0)
        super().__init__(
            {
                "i": In(layout(spec.streams()["o"])),
                "part": In(range(parts)),
                "o": Out(data.ArrayLayout(shape(self.format), self.width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        product = shape(Format(self.format.integer, spec.fraction_bits))
        numbers = elements(self.i.number, spec.streams()["o"].fields[0])
        last = self.part == self.parts - 1
        for j in range(self.width):
            number = mux_tree(self.part, numbers[j :: self.width])
            scaled = Signal(product, name=f"scaled{j}", reset_less=True)
            missing = last if j + (self.parts - 1) * self.width >= self.n else 0
            m.d.sync += scaled.eq(Mux(missing, 0, self._integer(number)))
            if self.drop:
                m.submodules[f"rounding{j}"] = rounding = RoundSaturate(len(scaled), self.drop, self.format)
                m.d.comb += [rounding.i.eq(scaled), self.o[j].eq(rounding.o)]
            else:
                m.d.comb += self.o[j].eq(scaled)
        return m

    def _integer(self, number: Value) -> Value:
        """Integer that `draw` returns for a number of the stream."""
        spec = self.spec
        if isinstance(spec, GaussianArraySpec):
            return Cat(1, number).as_signed()
        return number.as_signed() if spec.strategy == "pool" else self._product(number, spec)

    def _product(self, number: Value, spec: PezoSpec) -> Value:
        """Product of the factor and the odd number 2 y + 1, with y = `number`."""
        table, factor = spec.scale.table, self.i.scale
        exact, negative = Cat(1, number).as_signed(), Cat(1, ~number).as_signed()
        power = int(table.max()).bit_length() - 1
        if not spec.scale.varies:
            return exact * int(table[0])
        if {int(entry) - (1 << power) for entry in table} <= set(_FEW):
            # minus an odd number is the number with all bits but the lowest inverted, so one adder suffices
            distance = factor[:2]
            multiple = Mux(distance[1], Mux(distance[0], negative, negative << 1), Mux(distance[0], exact, 0))
            return (exact << power) + multiple
        terms = [Mux(bit, exact, 0) << k for k, bit in enumerate(factor)]
        return sum(terms[1:], start=terms[0])
