"""Averages: exact division compared with Fraction, and the hardware's multiplication for every sum."""

from fractions import Fraction

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format, divided
from fabtune.golden.nn.arithmetic.forward import Reciprocal

COUNTS = (1, 2, 3, 4, 6, 9, 15, 16, 25, 36, 49, 64, 100, 121, 125, 196, 225, 1000, 1024, 3136)


@pytest.mark.parametrize("count", COUNTS)
def test_an_average_is_rounded_half_to_even(count):
    sums = np.arange(-3 * count, 3 * count + 1)
    assert divided(sums, count).tolist() == [round(Fraction(one, count)) for one in sums.tolist()]


@pytest.mark.parametrize("width", [2, 4, 7])
@pytest.mark.parametrize("count", range(1, 66))
def test_the_multiplication_gives_every_average_of_narrow_activations(width, count):
    half = 1 << (width - 1)
    sums = np.arange(-half * count, (half - 1) * count + 1)
    reciprocal = Reciprocal(count, Format(width, 0))
    assert np.array_equal(reciprocal.divide(sums), divided(sums, count))
    assert ((sums + reciprocal.offset) >= 0).all()
    assert int((sums + reciprocal.offset).max()).bit_length() == reciprocal.numerator_bits


@pytest.mark.parametrize("count", COUNTS)
def test_the_multiplication_gives_averages_of_activations_at_ties_beside_them_and_at_the_ends(count):
    rng = np.random.default_rng(count)
    least, most = -(1 << 23) * count, ((1 << 23) - 1) * count
    # ties for even counts, else just below a tie
    ties = rng.integers(-(1 << 23), (1 << 23) - 1, 2000) * count + count // 2
    near = (ties + step for step in (-1, 0, 1))
    ends = (np.arange(least, least + 2 * count), np.arange(most - 2 * count, most + 1))
    sums = np.clip(np.concatenate([*near, *ends, rng.integers(least, most + 1, 2000)]), least, most)
    assert np.array_equal(Reciprocal(count).divide(sums), divided(sums, count))


@pytest.mark.parametrize("count", COUNTS)
def test_the_constants_meet_the_bound_of_the_proof(count):
    reciprocal = Reciprocal(count)
    error = reciprocal.multiplier * count - (1 << reciprocal.shift)
    largest = ((1 << 23) - 1) * count + reciprocal.offset
    assert 0 <= error < count
    assert error * largest < 1 << reciprocal.shift
    assert largest.bit_length() == reciprocal.numerator_bits


@pytest.mark.parametrize("shift", range(12))
def test_a_power_of_two_is_a_shift(shift):
    assert (Reciprocal(1 << shift).multiplier, Reciprocal(1 << shift).shift) == (1, shift)


def test_an_average_of_nothing_is_refused():
    with pytest.raises(UserError, match="at least 1 value, not 0"):
        Reciprocal(0)
