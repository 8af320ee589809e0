"""Transformer functions: worst errors over all arguments, compared with PyTorch in float64."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format, Narrower, narrow
from fabtune.golden.stream.functions import (
    INVERSE,
    POWER,
    gelu,
    gelu_tanh,
    inverse_root,
    normalised,
    power_of_half,
    reciprocal,
    scaled,
    silu,
)

ALL = np.arange(Q8_16.minimum, Q8_16.maximum + 1)


@pytest.mark.parametrize(
    ("function", "float64"),
    [
        (gelu, functional.gelu),
        pytest.param(gelu_tanh, lambda x: functional.gelu(x, approximate="tanh"), marks=pytest.mark.slow),
        (silu, functional.silu),
    ],
)
def test_activations_are_at_most_one_and_a_half_last_places_off(function, float64):
    exact = float64(torch.from_numpy(Q8_16.to_float(ALL))).numpy()
    error = np.abs(function(ALL) - np.ldexp(exact, Q8_16.fraction))
    assert 1 < error.max() < 1.5
    assert np.sqrt((error**2).mean()) < 0.4


def test_powers_are_at_most_one_and_a_half_last_places_off():
    exponents = np.arange(25 << 16)
    error = np.abs(power_of_half(exponents) - np.exp2(POWER.fraction - exponents / 2**16))
    assert 1 < error.max() < 1.5
    assert power_of_half(np.array([0, 1 << 16, 20 << 16, 21 << 16, 1 << 40])).tolist() == [1 << 20, 1 << 19, 1, 0, 0]


def test_powers_of_fewer_fraction_bits_are_the_same():
    exponents = np.arange(1 << 12)
    assert (power_of_half(exponents, 8) == power_of_half(exponents << 8)).all()


@pytest.mark.parametrize(("function", "power"), [(reciprocal, 1.0), (inverse_root, 0.5)])
def test_inverses_are_at_most_two_last_places_off(function, power):
    rng = np.random.default_rng(3)
    values = np.concatenate([np.arange(1, 1 << 21), rng.integers(1, 1 << 62, 100_000), rng.integers(1, 1 << 40, 10**5)])
    found = function(values)
    error = np.ldexp(found.mantissa * values.astype(float) ** power, -INVERSE.fraction - found.exponent) - 1
    assert 0.9 < np.abs(error).max() * 2**17 < 1.3
    assert found.mantissa.min() == 1 << 16
    assert found.mantissa.max() == INVERSE.maximum


@pytest.mark.parametrize("fraction", [0, 1, 7, -3])
def test_roots_of_fractions(fraction):
    values = np.arange(1, 10_000)
    found = inverse_root(values, fraction)
    exact = 1 / np.sqrt(np.ldexp(values.astype(float), -fraction))
    np.testing.assert_allclose(np.ldexp(found.mantissa.astype(float), -17 - found.exponent), exact, rtol=2**-16.5)


@pytest.mark.parametrize("bits", [0, 1, 19, 20, 21, 61])
def test_the_octave_of_a_power_of_two_and_its_neighbours(bits):
    octave, mantissa = normalised(np.array([(1 << bits), (2 << bits) - 1]))
    assert octave.tolist() == [bits, bits]
    assert mantissa[0] == 0
    assert mantissa[1] == (1 << 20) - (1 << max(20 - bits, 0))


def test_no_inverse_of_zero_and_no_power_of_a_negative_exponent():
    with pytest.raises(UserError, match="positive number, not of 0"):
        reciprocal(np.array([3, 0]))
    with pytest.raises(UserError, match="from 0 on, not for -1 units"):
        power_of_half(np.array([-1]))


def test_a_product_with_inverses_is_rounded_once_and_saturates():
    values, divisors = np.array([3, -3, 1 << 40, 5]), np.array([7, 7, 1, 1 << 20])
    inverse, counted, result = reciprocal(divisors), Narrower(), Format(8, 10)
    found = scaled(values, 0, inverse, result, counted)
    # one by one, with the function for a constant shift
    expected = [
        int(narrow(np.array([value * mantissa]), 17 + int(exponent), result)[0])
        for value, mantissa, exponent in zip(values, *inverse, strict=True)
    ]
    assert found.tolist() == expected
    assert counted.saturations == 1
