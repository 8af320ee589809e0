"""Scale table compared with SciPy's chi distribution and the documented figures."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi

from fabtune.golden.errors import UserError
from fabtune.golden.rng.scale import ScaleSpec, expected_modulus
from fabtune.golden.rng.urng import UrngSpec


@pytest.mark.parametrize("n", [1, 2, 31, 4095, 10**6])
def test_the_expected_modulus_is_the_mean_of_chi(n):
    assert expected_modulus(n) == pytest.approx(chi(n).mean(), rel=1e-6)


def test_the_exact_factor_gives_the_gaussian_modulus():
    spec = ScaleSpec()
    for position in (0, 100, 5000):
        numbers = spec.urng.draw(position, 1)[0] / 256
        factor = spec.exact[position % 255]
        assert np.linalg.norm(factor * numbers) == pytest.approx(expected_modulus(31), rel=1e-12)


def test_the_papers_table_is_a_constant_at_31():
    spec = ScaleSpec(mode="pow2")
    assert not spec.varies
    assert set(spec.table.tolist()) == {2}
    assert spec.modulus_error.mean() == pytest.approx(0.16, abs=0.01)


def test_two_fraction_bits_bring_the_error_to_four_percent():
    spec = ScaleSpec()
    assert set(spec.table.tolist()) == {6, 7, 8, 9}
    assert np.abs(spec.modulus_error).max() <= 0.125 / spec.exact.min()
    assert np.abs(spec.modulus_error).mean() < 0.04


def test_more_bits_mean_less_error():
    errors = [np.abs(ScaleSpec(fraction=bits).modulus_error).mean() for bits in range(7)]
    assert all(after < before for before, after in pairwise(errors[1:]))


def test_the_constant_is_right_on_average():
    spec = ScaleSpec(mode="constant", fraction=8)
    assert abs(np.mean(spec.table / 256 / spec.exact) - 1) < 0.002


def test_powers_of_two_are_the_nearest():
    spec = ScaleSpec(mode="pow2", urng=UrngSpec(n=3))
    for factor, power in zip(spec.exact, spec.table, strict=True):
        assert 2**-0.5 <= power / factor <= 2**0.5


def test_rotation_leaves_the_modulus_alone():
    spec = ScaleSpec()
    rows = spec.urng.draw(0, 600).astype(np.int64)
    squares = (rows**2).sum(axis=1)
    assert np.array_equal(squares[:255], squares[255:510])


def test_the_first_number_does_not_determine_the_factor():
    # reason for indexing by a non-rotating generator
    spec = ScaleSpec(fraction=4)
    first = spec.urng.draw(0, spec.period)[:, 0]
    factors = spec.factors(0, spec.period)
    assert max(len(set(factors[first == value].tolist())) for value in set(first.tolist())) > 1


@pytest.mark.parametrize(
    "spec", [ScaleSpec(), ScaleSpec(urng=UrngSpec(bits=14)), ScaleSpec(urng=UrngSpec(leap=4))], ids=str
)
@pytest.mark.parametrize("position", [0, 7900, 10**9])
def test_drawing_is_number_times_factor(spec, position):
    drawn = spec.draw(position, 40)
    expected = spec.urng.draw(position, 40) * spec.factors(position, 40)[:, None]
    assert np.array_equal(drawn, expected)


@pytest.mark.parametrize("spec", [ScaleSpec(), ScaleSpec(urng=UrngSpec(bits=10, leap=2))], ids=str)
def test_the_rom_by_reference_state_is_the_table_by_time(spec):
    for time in (0, 1, 77, spec.urng.lfsr.period - 1):
        assert spec.rom[spec.reference(time)] + spec.table.min() == spec.table[time]


def test_wrong_parameters_are_refused():
    with pytest.raises(UserError, match="fraction = 13"):
        ScaleSpec(fraction=13)
