"""Statistics compared with SciPy, NumPy and hand-computed values."""

import numpy as np
import pytest
from scipy import stats

from fabtune.golden.errors import UserError
from fabtune.golden.rng.statistics import autocorrelation, measure, modulus

NUMBERS = np.random.default_rng(1).gamma(3.0, size=(5000, 3))


def test_moments_are_scipys():
    quality = measure(NUMBERS, lags=[1])
    assert quality.count == NUMBERS.size
    assert quality.mean == pytest.approx(NUMBERS.mean())
    assert quality.deviation == pytest.approx(NUMBERS.std())
    assert quality.kurtosis == pytest.approx(stats.kurtosis(NUMBERS, axis=None))


@pytest.mark.parametrize("lag", [0, 1, 7, 4095, 4999])
def test_autocorrelation_is_the_mean_product(lag):
    centred = NUMBERS - NUMBERS.mean()
    products = centred[: len(centred) - lag] * centred[lag:]
    expected = products.mean() / centred.var()
    assert autocorrelation(NUMBERS, [lag])[lag] == pytest.approx(expected, abs=1e-12)


def test_one_sequence_is_one_column():
    one = NUMBERS[:, 0]
    assert measure(one, lags=[3]) == measure(one[:, None], lags=[3])


def test_a_repeating_sequence_correlates_with_itself_after_a_period():
    quality = measure(np.tile([1, -1, 1, 1, -1], 200), lags=range(1, 8))
    assert quality.worst_lag == 5
    assert quality.correlations[5] == pytest.approx(1)


def test_modulus_of_rows_and_of_blocks():
    rows = np.array([[3, 4], [5, 12], [8, 15]])
    np.testing.assert_allclose(modulus(rows), [5, 13, 17])
    np.testing.assert_allclose(modulus(rows.reshape(-1), 2), [5, 13, 17])
    np.testing.assert_allclose(modulus(rows, 4), [np.sqrt(9 + 16 + 25 + 144)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measure([2, 2, 2], lags=[1]), "3 numbers, all equal to 2.0"),
        (lambda: autocorrelation([1, 2, 3], [1, 3]), "3 cycles at lag 3: take 0 to 2"),
        (lambda: modulus([1, 2, 3], 4), "no block of 4 in 3 numbers: take 1 to 3"),
        (lambda: modulus([1, 2, 3], 0), "no block of 0 in 3 numbers"),
        (lambda: measure(np.zeros((2, 2, 2))), r"numbers of shape \(2, 2, 2\)"),
        (lambda: measure([]), r"numbers of shape \(0,\)"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
