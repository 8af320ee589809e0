"""RTL of a norm's lane."""

from amaranth.hdl import Cat, Const, Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16
from ....golden.stream.functions import INVERSE
from ....golden.stream.norms import NORMALISED, Q11_16
from ....golden.stream.values.layer_norm import FACTOR_BITS, MOST_SHIFT
from ...primitives.pipeline import delayed
from ...primitives.registers import register
from ...primitives.shifter import RoundingShifter, shift_left
from .row_deviation import PLACES_ADDED

_PRODUCT = Q11_16.width + INVERSE.width
_MOST_PLACES = 26 + PLACES_ADDED
"""Largest shift of a value's product, for the largest deviation."""
_MOST_DROP = FACTOR_BITS + 1 + MOST_SHIFT
_ALIGNED = Q8_16.width + FACTOR_BITS + 1
"""Width of a bias that is aligned to the product of value and factor."""


class NormLane(wiring.Component):
    """Normalise a value a cycle, `LATENCY` cycles later, without handshake.

    Attributes
    ----------
    value : In(Q11.16)
        Input value.
    mantissa, offset, places : In
        Outputs of `RowDeviation`, given one, two and three cycles after the value.
    factor : In(18)
    bias : In(Q8.16)
        Parameters, given `FETCHED` cycles after the value.
    there, biased : In(1)
        The row contains the value; the bias is added. Same timing as `bias`.
    lift : In(range(20))
        Left shift that aligns the bias: fraction bits of the factor, plus 1. Constant during an operation, like `drop`.
    drop : In(range(32))
        Number of low bits of the exact sum to round off.
    o : Out(Q8.16)
        Result; 0 for a value outside the row.
    clipped_scaled, clipped : Out(1)
        The value was saturated before the factor; the result was saturated.
    """

    SCALED = 3 + RoundingShifter.latency_of(_MOST_PLACES)
    FETCHED = SCALED - 1
    LATENCY = SCALED + 2 + RoundingShifter.latency_of(_MOST_DROP)

    def __init__(self) -> None:
        super().__init__(
            {
                "value": In(signed(Q11_16.width)),
                "mantissa": In(INVERSE.width),
                "offset": In(signed(_PRODUCT)),
                "places": In(6),
                "factor": In(signed(FACTOR_BITS)),
                "bias": In(signed(Q8_16.width)),
                "there": In(1),
                "biased": In(1),
                "lift": In(range(FACTOR_BITS + 2)),
                "drop": In(range(_MOST_DROP + 1)),
                "o": Out(signed(Q8_16.width)),
                "clipped_scaled": Out(1),
                "clipped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        m.submodules.scaling = scaling = RoundingShifter(_PRODUCT + 1 + PLACES_ADDED, _MOST_PLACES, NORMALISED)
        product = register(m, "product", register(m, "operand", self.value) * self.mantissa)
        # shift left by `PLACES_ADDED`, as `places` is larger by this number
        difference = register(m, "difference", product + self.offset)
        m.d.comb += [scaling.i.eq(difference << PLACES_ADDED), scaling.places.eq(self.places)]

        present = register(m, "is_there", self.there)
        factor = register(m, "own_factor", Mux(self.there, self.factor, 0))
        bias = register(m, "own_bias", shift_left(Mux(self.there & self.biased, self.bias, 0), self.lift[:2]))
        aligned = register(m, "aligned", shift_left(bias, Cat(Const(0, 2), self.lift[2:]))[:_ALIGNED].as_signed())
        m.submodules.rounding = rounding = RoundingShifter(_ALIGNED + 1, _MOST_DROP, Q8_16)
        total = register(m, "total", register(m, "scaled", scaling.o * factor) + aligned)
        rest = self.LATENCY - self.SCALED
        m.d.comb += [
            rounding.i.eq(total),
            rounding.places.eq(self.drop),
            self.o.eq(rounding.o),
            self.clipped_scaled.eq(delayed(m, scaling.clipped & present, rest, "beyond", reset_less=True)),
            self.clipped.eq(rounding.clipped),
        ]
        return m
