"""Integer layer norm, RMS norm and L2 norm compared with PyTorch in float64."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format, Narrower
from fabtune.golden.stream import norms
from fabtune.golden.stream.norms import LARGEST_HIDDEN, NORMALISED, Norm, unit_rows

GAIN = Format(4, 14)


def rows_of(features, size, seed=1):
    """Input rows of a norm in Q11.16: normal, with one large feature as in transformers."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, size, (40, features))
    rows[:, 0] *= 10
    return np.rint(rows * 2**16).astype(np.int64)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("features", "size"), [(384, 1.0), (384, 0.01), (384, 40.0), (7, 1.0), (1000, 1.0), (2, 1.0), (4096, 1.0)]
)
def test_norms_are_about_a_last_place_off(features, size, centred):
    rng, rows = np.random.default_rng(2), rows_of(features, size)
    gamma, beta = (GAIN.from_float(rng.normal(1, 0.3, features)), Q8_16.from_float(rng.normal(0, 0.3, features)))
    counted, norm = Narrower(), Norm(features, 1e-5, centred)
    found = norm.run(rows, gamma, beta, GAIN, counted)
    x, factor = torch.from_numpy(rows / 2**16), torch.from_numpy(GAIN.to_float(gamma))
    offset = torch.from_numpy(Q8_16.to_float(beta))
    normed = functional.layer_norm if centred else functional.rms_norm
    exact = (normed(x, (features,), eps=1e-5) * factor + offset).numpy()
    error = found - exact * 2**16
    # relative error 2**-17 from a 17-bit mantissa; half a last place of Q11.16 from the mean, also divided
    of_mean = centred * 0.5 / np.sqrt(np.var(rows / 2**16, axis=1, keepdims=True))
    assert (np.abs(error) < 1.5 + np.abs(exact) + of_mean * 2).all()
    if size >= 1:
        assert np.sqrt((error**2).mean()) < 0.75
    assert not counted.saturations


def test_equal_rows_are_their_biases():
    rows = np.full((2, 16), [[5 << 16], [0]])
    beta = np.arange(16)
    assert (Norm(16, 0.0).run(rows, np.full(16, 1 << 14), beta, GAIN, Narrower()) == beta).all()


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("features", [1024, 1025, LARGEST_HIDDEN])
def test_the_largest_rows_are_exact(centred, features):
    """With the most features the sum of squares exceeds 64 bits."""
    rows = np.full((2, features), -(1 << 26))
    rows[1, ::2] = (1 << 26) - 1
    found = Norm(features, 0.0, centred).normalised(rows, Narrower())
    exact = rows.astype(float) - centred * rows.mean(axis=1, keepdims=True)
    deviation = np.sqrt((exact**2).mean(axis=1, keepdims=True))
    expected = np.divide(exact, deviation, out=np.zeros_like(exact), where=deviation > 0)
    assert np.abs(NORMALISED.to_float(found) - expected).max() < 2**-15


def test_one_large_feature_saturates_and_is_counted():
    rows, counted, norm = np.zeros((1, 1024), np.int64), Narrower(), Norm(1024, 0.0, centred=False)
    rows[0, 3] = 1 << 20
    found = norm.normalised(rows, counted)
    assert found[0, 3] == pytest.approx(32 * 2**17, rel=1e-5)
    norm.run(rows, np.full(1024, 5 << 14), None, GAIN, counted)
    assert counted.saturations == 1


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("size", [1e-4, 1.0, 500.0])
def test_sums_in_two_halves_are_the_sums_of_62_bits(monkeypatch, centred, size):
    rows, norm = rows_of(1000, size).clip(-(1 << 26), (1 << 26) - 1), Norm(1000, 1e-5, centred)
    found = norm.normalised(rows, Narrower())
    monkeypatch.setattr(norms, "_FEATURES_OF_62_BITS", 0)
    assert (norm.normalised(rows, Narrower()) == found).all()


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_rows_of_unit_length(size):
    rows = rows_of(384, size)
    found = unit_rows(rows, Narrower())
    exact = functional.normalize(torch.from_numpy(rows.astype(float))).numpy()
    assert np.abs(found - exact * 2**16).max() < 2
    assert not unit_rows(np.zeros((1, 5), np.int64), Narrower()).any()


@pytest.mark.parametrize(
    ("features", "eps", "message"),
    [(0, 0.0, "not 0"), (4097, 0.0, "1 to 4096 features, not 4097"), (8, -1.0, "eps .* not -1.0"), (8, np.nan, "nan")],
)
def test_norms_that_are_refused(features, eps, message):
    with pytest.raises(UserError, match=message):
        Norm(features, eps)
