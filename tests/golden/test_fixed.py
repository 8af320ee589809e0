"""Fixed point compared with apytypes, an independent library, and with the definitions."""

from fractions import Fraction

import numpy as np
import pytest
from apytypes import APyFixed, OverflowMode, QuantizationMode
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import (
    Q4_12,
    Q8_16,
    Format,
    Overflow,
    Rounding,
    accumulator_width,
    matmul,
    narrow,
)

formats = st.builds(Format, st.integers(1, 12), st.integers(0, 16), st.booleans())
wide = st.integers(-(1 << 45), (1 << 45) - 1)
QUANTIZATION = {
    Rounding.HALF_EVEN: QuantizationMode.RND_CONV,
    Rounding.HALF_UP: QuantizationMode.RND,
    Rounding.TRUNCATE: QuantizationMode.TRN,
}
OVERFLOW = {Overflow.SATURATE: OverflowMode.SAT, Overflow.WRAP: OverflowMode.WRAP}


@given(wide, st.integers(0, 30), formats, st.sampled_from(list(QUANTIZATION)), st.sampled_from(list(OVERFLOW)))
def test_narrow_equals_apytypes(value, fraction, target, rounding, overflow):
    target = Format(target.integer, target.fraction)
    source = APyFixed(value % (1 << 50), int_bits=50 - fraction, frac_bits=fraction)
    there = source.cast(
        int_bits=target.integer,
        frac_bits=target.fraction,
        quantization=QUANTIZATION[rounding],
        overflow=OVERFLOW[overflow],
    )
    expected = there.to_bits()
    expected -= (expected >> (target.width - 1)) << target.width
    assert narrow(value, fraction, target, rounding, overflow) == expected


@given(wide, st.integers(0, 30), formats)
def test_half_even_is_the_nearest_value(value, fraction, target):
    exact = Fraction(value, 1 << fraction) * (1 << target.fraction)
    assert narrow(value, fraction, target) == min(max(round(exact), target.minimum), target.maximum)


@given(wide, st.integers(1, 30))
def test_half_even_is_odd_in_its_argument(value, shift):
    whole = Format(50, 0)
    assert narrow(-value, shift, whole) == -narrow(value, shift, whole)


@given(st.integers(-(1 << 40), 1 << 40), st.integers(1, 12))
def test_stochastic_rounding_is_exact_on_average(value, shift):
    noise = np.arange(1 << shift)
    rounded = narrow(np.full(len(noise), value), shift, Format(50, 0), Rounding.STOCHASTIC, noise=noise)
    assert rounded.sum() == value
    assert rounded.max() - rounded.min() <= 1


@given(st.integers(-(1 << 20), 1 << 20), st.integers(Q4_12.minimum, Q4_12.maximum))
def test_wrapping_additions_are_undone_exactly(step, weight):
    there = narrow(weight + step, Q4_12, Q4_12, overflow=Overflow.WRAP)
    assert narrow(there - step, Q4_12, Q4_12, overflow=Overflow.WRAP) == weight


def test_truncation_costs_half_a_place_on_average():
    values = np.arange(-(1 << 12), 1 << 12)
    error = narrow(values, 4, Format(20, 0), Rounding.TRUNCATE) - values / 16
    assert error.mean() == -15 / 32
    assert (narrow(values, 4, Format(20, 0)) - values / 16).mean() == 0


@given(formats)
def test_a_format_reads_its_own_name(number):
    assert Format.parse(str(number)) == number


@pytest.mark.parametrize("text", ["8.16", "Q8", "Q-1.3", "q8.16", "Q8.16 ", ""])
def test_what_is_not_a_format_is_refused(text):
    with pytest.raises(UserError, match="is not a format"):
        Format.parse(text)


def test_the_two_formats_of_the_papers():
    assert (Q8_16.width, Q4_12.width) == (24, 16)
    assert (Q4_12.minimum, Q4_12.maximum) == (-32768, 32767)
    assert Q4_12.to_float([4096, -32768]).tolist() == [1.0, -8.0]


def test_from_float_rounds_saturates_and_refuses_nan():
    assert Q4_12.from_float([0.5 / 4096, 1.5 / 4096, 99.0, -99.0]).tolist() == [0, 2, 32767, -32768]
    with pytest.raises(UserError, match="NaN"):
        Q4_12.from_float([0.0, float("nan")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1 << 50, 0, Format(4, 30)), "overflows 64-bit"),
        ((1, 70, Format(4, 0)), "at most 62"),
        ((1, 2, Format(4, 0), Rounding.STOCHASTIC), "needs random bits"),
    ],
)
def test_narrowings_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        narrow(*arguments)


@given(formats, formats, st.integers(1, 5000))
def test_an_accumulator_holds_the_worst_sums_and_not_a_bit_more(a, b, terms):
    ends = [terms * x * y for x in (a.minimum, a.maximum) for y in (b.minimum, b.maximum)]
    width = accumulator_width(a, b, terms)

    def fits(bits):
        return all(-(1 << (bits - 1)) <= end < 1 << (bits - 1) for end in ends)

    assert fits(width)
    assert width == 1 or not fits(width - 1)


def test_the_accumulator_of_the_largest_layer():
    assert accumulator_width(Q8_16, Q4_12, 3072) == 51


@given(st.integers(1, 1 << 30), st.integers(0, 2**32 - 1))
def test_matmul_is_exact_on_either_side_of_float64(largest, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-largest, largest, (3, 5), endpoint=True)
    b = rng.integers(-largest, largest, (5, 2), endpoint=True)
    exact = [[sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for column in b.T] for row in a]
    assert matmul(a, b).tolist() == exact


def test_matmul_refuses_sums_beyond_64_bits():
    with pytest.raises(UserError, match="beyond 64 bits"):
        matmul(np.full((1, 4), 1 << 31), np.full((4, 1), 1 << 31))
