"""RTL of a row's mean and inverse deviation."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.functions import INVERSE, MANTISSA
from ....golden.stream.norms import LARGEST_HIDDEN, Q11_16
from ....golden.stream.pwl_memory import FunctionMemory
from ...primitives.pipeline import Pipeline, delayed
from ...primitives.registers import register
from ...primitives.shifter import shift_left
from ..pwl import PiecewiseLinear
from .normalise import normalise, normalise_latency
from .row_sums import SQUARES, SUM

LIFT = (LARGEST_HIDDEN - 1).bit_length()
"""Largest left shift of a row's sum: it scales the row to the maximum number of features."""
_PART = 17
"""Bits of an unsigned operand in the narrow port of a DSP."""
_DROPPED = 13
"""Number of low bits of a shifted sum that the first quotient does not use; it uses 26 bits."""
_REST_BITS = 24
"""Width of the shifted remainder after the first quotient."""
_SHARE_BITS = 24
_ALIGNED = 2 * (_SHARE_BITS - 1) - LIFT + 1
"""Fraction bits of ``1 / features`` as a factor of a shifted sum."""
PLACES_ADDED = LIFT // 2
"""Number added to the places of the shift, so that they are never negative."""


class RowDeviation(wiring.Component):
    """Compute mean and inverse deviation of each row, `LATENCY` cycles after the row's sums, without handshake.

    The mean is exact. The sum is multiplied by 17 bits of the constant 1 / features; the remainder is multiplied in the
    same way; the second remainder decides the rounding. With mean m, sum S and remainder e = S - m features, the sum of
    squares about the mean is the sum of squares minus ``m (S + e)``.

    Parameters
    ----------
    table : FunctionMemory
        Two functions: inverse root of a mantissa, and of twice a mantissa.

    Attributes
    ----------
    features : In(range(LARGEST_HIDDEN + 1))
        Number of features in a row. Stable while rows are in progress, like the next four inputs.
    centred : In(1)
        High: subtract the mean. Low: the mean counts as 0.
    share, share_fraction, least : In
        Constants of `golden.stream.norms.NormConstants`; a sum is shifted left by 35 - `share_fraction` places.
    enable : In(1)
        `sum` and `squares` are valid.
    sum : In(SUM)
    squares : In(SQUARES)
        Sum of the row's values, and of their squares.
    valid : Out(1)
        `enable`, `LATENCY` cycles later.
    mantissa : Out(17)
        Mantissa of the inverse deviation; with `valid`, like `offset` and `places`.
    offset : Out(signed(44))
        Negated product of mean and mantissa.
    places : Out(6)
        Right shift of ``value * mantissa + offset``, plus `PLACES_ADDED`.
    """

    LATENCY = 34

    def __init__(self, table: FunctionMemory) -> None:
        self.table = table
        super().__init__(
            {
                "features": In(range(LARGEST_HIDDEN + 1)),
                "centred": In(1),
                "share": In(_SHARE_BITS),
                "share_fraction": In(6),
                "least": In(48),
                "enable": In(1),
                "sum": In(SUM),
                "squares": In(SQUARES),
                "valid": Out(1),
                "mantissa": Out(INVERSE.width),
                "offset": Out(signed(Q11_16.width + INVERSE.width)),
                "places": Out(6),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = {
            "sums": 0,
            "aligned": 1,
            "quotient": 2,
            "taken": 1,
            "rest": 1,
            "rest aligned": 1,
            "second quotient": 2,
            "second taken": 1,
            "second rest": 1,
            "difference": 1,
            "rounding": 1,
            "mean": 1,
            "products": 1,
            "product": 2,
            "deviation": 1,
            "normalised": normalise_latency(SQUARES),
            "share": 2,
            "mantissa": 1,
            "inverse": PiecewiseLinear.LATENCY,
            "offset": 2,
        }
        pipeline = Pipeline(m, stages)
        assert pipeline.latency("sums", "offset") == self.LATENCY
        under_way = Signal(self.LATENCY)
        m.d.comb += self.valid.eq(pipeline.place_flag("sums", self.enable, under_way).at("offset"))
        mean, about = self._mean(m, pipeline)
        deviation = self._deviation(m, pipeline, mean, about)
        mantissa = self._inverse(m, pipeline, deviation)
        product = register(
            m,
            "offset_product",
            pipeline.place("mean", mean, "mean", reset_less=True).at("inverse") * mantissa,
        )
        m.d.comb += [
            self.offset.eq(register(m, "offset", -product)),
            self.mantissa.eq(pipeline.place("inverse", mantissa, "inverse", reset_less=True).at("offset")),
        ]
        return m

    def _mean(self, m: Module, pipeline: Pipeline) -> tuple[Signal, Signal]:
        """Mean, and sum plus remainder (S + e), both at "mean"."""
        lift, share = Signal(range(LIFT + 1), reset_less=True), Signal(_PART, reset_less=True)
        m.d.sync += [
            lift.eq(LIFT + _SHARE_BITS - 1 - self.share_fraction),
            # rounded down, so that no quotient overflows
            share.eq((self.share - 1)[_SHARE_BITS - _PART : _SHARE_BITS]),
        ]
        total = Signal(SUM)
        m.d.comb += total.eq(Mux(self.centred, self.sum, 0))
        sums = pipeline.place("sums", total, "total", reset_less=True)
        aligned = register(m, "aligned", shift_left(total, lift)[_DROPPED : SUM.width].as_signed())
        product = register(m, "quotient_product", aligned * share)
        shift = _ALIGNED - _DROPPED - (_SHARE_BITS - _PART)
        quotient = register(m, "quotient", product[shift:].as_signed(), Q11_16.width)
        # the remainder is small, so its low bits suffice, modulo 2**_REST_BITS
        taken = register(m, "taken", quotient[:_REST_BITS].as_signed() * self.features)
        rest = register(m, "rest", sums.at("taken") - taken, _REST_BITS)
        again = register(m, "rest_aligned", shift_left(rest, lift), _REST_BITS)
        product = register(m, "second_product", again * share)
        second = register(m, "second_quotient", product[_ALIGNED - (_SHARE_BITS - _PART) :].as_signed())
        taken = register(m, "second_taken", second * self.features)
        remainder = pipeline.place("rest", rest, "left", reset_less=True).at("second taken") - taken
        rest = register(m, "second_rest", remainder, LIFT + 2)
        first = pipeline.place("quotient", quotient, "first_quotient", reset_less=True).at("second rest")
        second = pipeline.place("second quotient", second, "second", reset_less=True).at("second rest")
        whole = register(m, "whole", first + second, Q11_16.width)
        about = register(m, "about", sums.at("second rest") + rest)
        difference = register(m, "difference", (rest << 1) - self.features)
        up = register(m, "up", ~difference[-1] & (difference.any() | whole[0]))
        whole, about = (
            pipeline.place("difference", value, name, reset_less=True).at("rounding")
            for name, value in (("quotients", whole), ("sum_about", about))
        )
        mean = register(m, "mean", whole + up, Q11_16.width)
        return mean, register(m, "about_mean", about - Mux(up, self.features, 0), SUM.width + 1)

    def _deviation(self, m: Module, pipeline: Pipeline, mean: Signal, about: Signal) -> Signal:
        """Sum of squares about the mean, plus the least deviation; at "deviation"."""
        squares = register(m, "squares_least", (self.squares + self.least)[:SQUARES])
        # DSP cascade: each part of the factor enters one cycle after the part below it
        total = register(m, "mean_product0", mean * about[:_PART])
        product: Value = delayed(m, total[:_PART], 2, "low_product0", reset_less=True)
        parts = about[_PART : 2 * _PART], about[2 * _PART :].as_signed()
        for number, part in enumerate(parts):
            factor = delayed(m, mean, number, f"mean_part{number}", reset_less=True)
            operand = delayed(m, Cat(part), number, f"about_part{number}", reset_less=True)
            operand = operand.as_signed() if number else operand
            partial = register(m, f"mean_product{number + 1}", factor * operand)
            total = register(m, f"cascade{number}", partial + (total >> _PART))
            product = Cat(product, total if number else delayed(m, total[:_PART], 1, "low_product1", reset_less=True))
        kept = pipeline.place("aligned", squares, "squares", reset_less=True).at("product")
        return register(m, "about_mean", (kept - product)[:SQUARES])

    def _inverse(self, m: Module, pipeline: Pipeline, deviation: Signal) -> Signal:
        """Mantissa of the inverse deviation, at "inverse"; also drives `places`."""
        normal, zeros = normalise(m, deviation)
        base = Signal(7, reset_less=True)
        m.d.sync += base.eq(SQUARES - 1 + 2 * PLACES_ADDED + _SHARE_BITS - 1 - self.share_fraction)
        products = [
            register(m, f"share_product{number}", part * self.share)
            for number, part in enumerate((normal[:_PART], normal[_PART:]))
        ]
        exponent = delayed(m, register(m, "exponent", base - zeros, 8), 1, "exponent_0", reset_less=True).as_signed()
        quotient = register(m, "share_quotient", (products[0] + (products[1] << _PART))[: MANTISSA + _SHARE_BITS + 1])
        high = quotient[-1]
        mantissa = register(m, "mantissa", Mux(high, quotient[-1 - MANTISSA : -1], quotient[-2 - MANTISSA : -2]))
        power = register(m, "power", exponent + high, 8)
        m.submodules.inverse = inverse = PiecewiseLinear(self.table, 1)
        m.d.comb += [
            inverse.function.eq(power[0]),
            inverse.argument[0].eq(mantissa),
            self.places.eq(pipeline.place("mantissa", power[1:7], "power", reset_less=True).at("offset")),
        ]
        return inverse.o[0]
