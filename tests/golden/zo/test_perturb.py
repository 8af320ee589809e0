"""The weight lane compared with exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.zo.perturb import PerturbSpec

SCALED = PerturbSpec(lanes=4, numbers=4, number="Q1.7", odd=True, scale="U2.2")
weights = st.integers(-32768, 32767)
signs = st.sampled_from([-1, 0, 1])


def lane(spec, weight, number, sign, scale=None):
    delta = spec.delta(np.array([[number]]), None if scale is None else np.array([[scale]]))
    return int(spec.apply(np.array([[weight]]), delta, np.array([[sign]]))[0, 0])


@given(weights, st.integers(-128, 127), st.integers(0, 15), signs)
def test_a_lane_adds_the_nearest_step(weight, number, scale, sign):
    spec = PerturbSpec(number="Q1.7", odd=True, scale="U2.2")
    step = Fraction(2 * number + 1, 256) * Fraction(scale, 4) / 1024 * 4096
    exact = weight + sign * round(step)
    assert lane(spec, weight, number, sign, scale) == min(max(exact, -32768), 32767)


@given(weights, st.integers(-2048, 2047), signs)
def test_wrapping_is_undone_to_the_bit(weight, number, sign):
    spec = PerturbSpec(overflow="wrap", eps_shift=3)
    there = lane(spec, weight, number, sign)
    assert lane(spec, there, number, -sign) == weight


def test_saturation_is_not_undone():
    spec = PerturbSpec(eps_shift=3)
    assert lane(spec, lane(spec, 32767, 2047, 1), 2047, -1) != 32767


def test_a_plain_shift_pulls_every_weight_down():
    numbers = np.arange(-2048, 2048)[:, None]
    zero = np.zeros_like(numbers)
    drift = {}
    for rounding in ("half-even", "truncate"):
        spec = PerturbSpec(rounding=rounding)
        steps = spec.delta(numbers)
        drift[rounding] = (spec.apply(zero, steps, zero + 1).mean() + spec.apply(zero, steps, zero - 1).mean()) / 2
        assert spec.delta_format.minimum <= steps.min() <= steps.max() <= spec.delta_format.maximum
    assert drift["half-even"] == 0
    exact = numbers.mean() / 2**8
    assert PerturbSpec(rounding="truncate").delta(numbers).mean() - exact == pytest.approx(-0.5, abs=0.01)


def test_lane_j_takes_number_j_mod_n():
    spec = PerturbSpec(lanes=7, numbers=3, eps_shift=3)
    numbers = np.array([[512, 1024, -512]])
    result = spec.apply(np.zeros((1, 7), np.int64), spec.delta(numbers), np.array([[1]]))
    assert result.tolist() == [[256, 512, -256, 256, 512, -256, 256]]


def test_minus_two_is_no_sign():
    assert lane(PerturbSpec(), 100, 2047, -2) == 100


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 0}, "lanes = 0"),
        ({"numbers": 5000}, "numbers = 5000"),
        ({"number": "Q2"}, "not a format"),
        ({"scale": "Q2.2"}, "is signed"),
        ({"eps_shift": 2}, "leaves 0 bits to round off"),
        ({"eps_shift": 60}, "must be 1 to 40"),
        ({"number": "Q20.10"}, "exceeds a weight"),
        ({"tag": 33}, "tag = 33"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        PerturbSpec(**changes)
