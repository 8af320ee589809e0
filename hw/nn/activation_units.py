"""RTL of `golden.nn.array.activation_units`: `columns` values a cycle, without handshake."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q8_16
from ...golden.models.activations import GATE_DIVISOR, GATE_OFFSET, SLOPE_FRACTION
from ...golden.nn.array import latency
from ...golden.nn.array.activation_units import ActivationUnit, HardSwishUnit, LeakyUnit
from ..primitives.pipeline import Pipeline
from ..primitives.reciprocal import ReciprocalDivider
from ..primitives.rounding import RoundSaturate
from .interfaces import ACTIVATION


class UnitComponent(wiring.Component):
    """Activation unit of all columns.

    Parameters
    ----------
    unit : ActivationUnit
    columns : int
        Values of a cycle.

    Attributes
    ----------
    choice : In, range(len(unit.constants) + 1)
        `ActivationUnit.choice`; with 0 values pass unchanged.
    i : In, array of columns Q8.16
    o : Out, array of columns Q8.16
        `unit.latency` cycles later.
    """

    def __init__(self, unit: ActivationUnit, columns: int) -> None:
        self.unit = unit
        values = data.ArrayLayout(ACTIVATION, columns)
        super().__init__({"choice": In(range(len(unit.constants) + 1)), "i": In(values), "o": Out(values)})


class LeakyRelu(UnitComponent):
    """Product of negative values and a slope, rounded half to even; one DSP a column."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slopes = self.unit.constants
        factor: Value | int = slopes[0]
        if len(slopes) > 1:
            factor = Signal(unsigned(SLOPE_FRACTION), reset_less=True)
            with m.Switch(self.choice):
                for number, slope in enumerate(slopes, start=1):
                    with m.Case(number):
                        m.d.sync += factor.eq(slope)
        stages = {"input": 0, "operands": latency.OPERANDS, "product": latency.PRODUCT, "output": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        leaky = pipeline.place("input", self.choice.any(), "leaky", reset_less=True).at("output")
        for column, value in enumerate(self.i):
            operand = Signal(ACTIVATION, name=f"operand{column}", reset_less=True)
            product = Signal(signed(Q8_16.width + SLOPE_FRACTION), name=f"product{column}", reset_less=True)
            m.d.sync += [operand.eq(value), product.eq(operand * factor)]
            m.submodules[f"rounding{column}"] = rounding = RoundSaturate(len(product), SLOPE_FRACTION, Q8_16)
            passed = pipeline.place("operands", operand, f"passed{column}", reset_less=True).at("output").as_signed()
            m.d.comb += [rounding.i.eq(product), self.o[column].eq(Mux(leaky & (passed < 0), rounding.o, passed))]
        return m


class HardSwish(UnitComponent):
    """Product of a value and its gate, (x + 3) / 6 in 0 to 1, both rounded half to even; two DSPs a column."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        gate, three, six = HardSwishUnit.GATE, GATE_OFFSET, GATE_DIVISOR << Q8_16.fraction
        stages = {"input": 0, "gate": gate.latency, "product": latency.PRODUCT, "output": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        gated = pipeline.place("input", self.choice, "gated", reset_less=True).at("output")
        for column, value in enumerate(self.i):
            m.submodules[f"divider{column}"] = divider = ReciprocalDivider(gate)
            above = Mux(value >= six - three, gate.offset + six, value + (gate.offset + three))
            m.d.comb += divider.numerator.eq(Mux(value < -three, gate.offset, above))
            operand = pipeline.place("input", value, f"operand{column}", reset_less=True)
            product = Signal(signed(Q8_16.width + len(divider.quotient)), name=f"product{column}", reset_less=True)
            m.d.sync += product.eq(operand.at("gate").as_signed() * divider.quotient)
            m.submodules[f"rounding{column}"] = rounding = RoundSaturate(len(product), Q8_16.fraction, Q8_16)
            passed = operand.at("output").as_signed()
            m.d.comb += [rounding.i.eq(product), self.o[column].eq(Mux(gated, rounding.o, passed))]
        return m


COMPONENTS: dict[str, type[UnitComponent]] = {LeakyUnit.kind: LeakyRelu, HardSwishUnit.kind: HardSwish}
"""Component of each kind of unit."""
