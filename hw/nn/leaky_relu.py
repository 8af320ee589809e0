"""Leaky ReLU: what is below 0 times a slope, rounded."""

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q8_16
from ...golden.models.stages import SLOPE_FRACTION
from ...golden.nn.array import latency
from ..primitives.pipeline import Pipeline
from ..primitives.rounding import RoundSaturate
from .interfaces import ACTIVATION


class LeakyRelu(wiring.Component):
    """Multiply what is below 0 by a slope and round half to even, a value a column and cycle, without handshake.

    A column takes a DSP48E2.

    Parameters
    ----------
    columns : int
        Values of a cycle.
    slopes : tuple of int
        Slopes that there are, `SLOPE_FRACTION` fraction bits, in 1 to 2**SLOPE_FRACTION - 1.

    Attributes
    ----------
    slope : In, range(len(slopes) + 1)
        Which one, counted from 1; 0: the values pass as they are.
    i : In, array of columns Q8.16
    o : Out, array of columns Q8.16
        `LATENCY` cycles later.
    """

    LATENCY = latency.LEAKY

    def __init__(self, columns: int, slopes: tuple[int, ...]) -> None:
        self.slopes = slopes
        values = data.ArrayLayout(ACTIVATION, columns)
        super().__init__({"slope": In(range(len(slopes) + 1)), "i": In(values), "o": Out(values)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factor: Value | int = self.slopes[0]
        if len(self.slopes) > 1:
            factor = Signal(unsigned(SLOPE_FRACTION), reset_less=True)
            with m.Switch(self.slope):
                for number, slope in enumerate(self.slopes, start=1):
                    with m.Case(number):
                        m.d.sync += factor.eq(slope)
        stages = {"input": 0, "operands": latency.OPERANDS, "product": latency.PRODUCT, "output": RoundSaturate.LATENCY}
        pipeline = Pipeline(m, stages)
        leaky = pipeline.place("input", self.slope.any(), "leaky", reset_less=True).at("output")
        for column, value in enumerate(self.i):
            operand = Signal(ACTIVATION, name=f"operand{column}", reset_less=True)
            product = Signal(signed(Q8_16.width + SLOPE_FRACTION), name=f"product{column}", reset_less=True)
            m.d.sync += [operand.eq(value), product.eq(operand * factor)]
            m.submodules[f"rounding{column}"] = rounding = RoundSaturate(len(product), SLOPE_FRACTION, Q8_16)
            passed = pipeline.place("operands", operand, f"passed{column}", reset_less=True).at("output").as_signed()
            m.d.comb += [rounding.i.eq(product), self.o[column].eq(Mux(leaky & (passed < 0), rounding.o, passed))]
        return m
