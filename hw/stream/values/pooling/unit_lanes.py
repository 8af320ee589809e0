"""RTL of a row's division by its L2 norm."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .....golden.fixed import Q8_16, Format
from .....golden.stream.functions import INVERSE, MANTISSA
from .....golden.stream.norms import Q11_16
from .....golden.stream.values.pool_head import NEAR_OCTAVE, PASSES, UNIT_LANES, PoolHeadSpec
from ....ports import shape
from ....primitives.pipeline import Pipeline, delayed
from ....primitives.registers import register
from ....primitives.shifter import RoundingShifter
from ....probe import probe
from ...pwl import PiecewiseLinear
from ..normalise import normalise, normalise_latency

_NEAR = Format(19, 0)
"""Format of a value, scaled so that the row's largest magnitude has 17 bits, and rounded: up to 2**17."""


class UnitLanes(wiring.Component):
    """Divide rows by their L2 norm: a word of `UNIT_LANES` values a cycle, in three passes over each row.

    One multiplier per lane computes squares in the second pass and results in the third. The result of a pass is ready
    for the next pass `spec.pass_latency` cycles after the pass's last word.

    Attributes
    ----------
    step : In(range(PASSES))
        Pass: largest value, squares, results. Stable from the pass's first word until its result is ready.
    begin : In(1)
        Clear the state before a row's first pass; no word may be in progress.
    enable : In(1)
        `value` is valid.
    value : In, array of Q11.16
        Values, 0 beyond the row.
    valid : Out(1)
        `o` is valid, in the third pass.
    o : Out, array of Q8.16
        Results from -1 to 1.
    """

    def __init__(self, spec: PoolHeadSpec) -> None:
        self.spec = spec
        super().__init__(
            {
                "step": In(range(PASSES)),
                "begin": In(1),
                "enable": In(1),
                "value": In(data.ArrayLayout(shape(Q11_16), UNIT_LANES)),
                "valid": Out(1),
                "o": Out(data.ArrayLayout(shape(Q8_16), UNIT_LANES)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, drops = self.spec, self.spec.drops
        pipeline = Pipeline(
            m,
            {
                "word": 0,
                "near": RoundingShifter.latency_of(Q11_16.width - 1),
                "operands": 1,
                "product": 1,
                "result": RoundingShifter.latency_of(len(drops) - 1),
            },
        )
        rest = 3 + normalise_latency(spec.squares) + PiecewiseLinear.LATENCY + 1
        assert pipeline.latency("word", "result") + rest == spec.pass_latency
        under_way = Signal(pipeline.latency("word", "result"))
        flag = pipeline.place_flag("word", self.enable, under_way)
        octave, mantissa, drop = Signal(5, reset_less=True), Signal(INVERSE.width, reset_less=True), Signal(4)
        products = []
        for lane in range(UNIT_LANES):
            m.submodules[f"near{lane}"] = nearer = RoundingShifter(Q11_16.width + NEAR_OCTAVE, Q11_16.width - 1, _NEAR)
            m.submodules[f"result{lane}"] = rounding = RoundingShifter(
                _NEAR.width + INVERSE.width, drops[-1], Q8_16, drops[0]
            )
            near, squares = nearer.o, self.step == 1
            # squares use minus the magnitude: a magnitude of 2**17 fits the DSP's narrow port only as a negative number
            below = Mux(near[-1], near, -near)[: _NEAR.width - 1].as_signed()
            wide = register(m, f"wide{lane}", Mux(squares, below, near), _NEAR.width)
            factor = register(m, f"factor{lane}", Mux(squares, below, mantissa), INVERSE.width + 1)
            products.append(register(m, f"product{lane}", wide * factor, _NEAR.width + INVERSE.width))
            m.d.comb += [
                nearer.i.eq(self.value[lane] << NEAR_OCTAVE),
                nearer.places.eq(octave),
                rounding.i.eq(products[lane]),
                rounding.places.eq(drop),
                self.o[lane].eq(rounding.o),
            ]
        gives = register(m, "gives", self.step == PASSES - 1)
        m.d.comb += self.valid.eq(flag.at("result") & gives)
        normal, zeros = normalise(
            m, Mux(self.step == 0, self._largest(m), self._total(m, flag.at("product"), products))
        )
        exponent = spec.squares - 1 - zeros
        m.submodules.inverse = inverse = PiecewiseLinear(spec.table, 1)
        m.d.comb += [inverse.function.eq(exponent[0]), inverse.argument[0].eq(normal[:MANTISSA])]
        with m.If(self.step == 0):
            m.d.sync += octave.eq(exponent)
        with m.If(self.step == 1):
            m.d.sync += [mantissa.eq(inverse.o[0]), drop.eq((exponent >> 1) - NEAR_OCTAVE)]
        probe(self, under_way=under_way, gives=gives)
        return m

    def _largest(self, m: Module) -> Signal:
        """OR of all magnitudes in the row; its leading 1 is that of the largest magnitude."""
        largest = Signal(self.spec.squares, reset_less=True)
        magnitudes: Value = Const(0)
        for lane in range(UNIT_LANES):
            value = self.value[lane]
            magnitudes |= register(m, f"magnitude{lane}", Mux(value[-1], -value, value)[: Q11_16.width])
        present = Signal()
        m.d.sync += present.eq(self.enable & (self.step == 0))
        with m.If(present):
            m.d.sync += largest.eq(largest | magnitudes)
        with m.If(self.begin):
            m.d.sync += largest.eq(0)
        return largest

    def _total(self, m: Module, flag: Value, products: list[Signal]) -> Signal:
        pairs = [register(m, f"pair{first}", products[first] + products[first + 1]) for first in (0, 2)]
        four = register(m, "four", pairs[0] + pairs[1])
        total, present = (
            Signal(self.spec.squares, reset_less=True),
            delayed(m, flag & (self.step == 1), 2, "squares_there"),
        )
        with m.If(present):
            m.d.sync += total.eq(total + four)
        with m.If(self.begin):
            m.d.sync += total.eq(0)
        return total
