"""`layer_norm` compared with PyTorch in float64, and with the saturation counts of `norms`; its limits."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.block import joined
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Format, Narrower
from fabtune.golden.stream.norms import Norm
from fabtune.golden.stream.values.layer_norm import LayerNormSpec

GAIN = Format(4, 14)
SPEC = LayerNormSpec(lanes=4, features=64, tag=3)


def operation(rows, gamma, beta, side, norm, **settings):
    """Words of an operation: parameters of both sides, and rows of each side."""
    count, features = rows.shape
    width = -(-features // SPEC.lanes)
    own = np.stack([gamma] if beta is None else [beta, gamma], axis=1)
    padded = np.pad(own, ((0, 0), (0, 0), (0, -features % 4)), constant_values=7).reshape(2, -1, 4)
    share, share_fraction = norm.share
    fields = {"features": features, "rows": count, "centred": norm.centred, "biased": beta is not None}
    fields |= {"factor": share, "factor_fraction": share_fraction, "least": norm.least, "fraction": GAIN.fraction}
    fields |= {"result_shift": 0} | settings
    words = np.pad(rows, ((0, 0), (0, width * SPEC.lanes - features)), constant_values=99).reshape(-1, SPEC.lanes)
    flags = {name: np.zeros((count, width), np.int64) for name in ("side", "tag")}
    flags["side"][:, 0], flags["tag"][:, 0] = side, np.arange(count) % 8
    return {
        "operation": {name: np.array([[int(value)]]) for name, value in fields.items()},
        "parameters": {"plus": padded[0], "minus": padded[1]},
        "i": {"value": words} | {name: column.reshape(-1, 1) for name, column in flags.items()},
    }


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("features", "biased", "shift"), [(64, True, 0), (21, False, 0), (1, True, 2), (30, True, 3)])
def test_rows_are_pytorch_s_with_the_parameters_of_their_side(centred, features, biased, shift):
    rng, norm = np.random.default_rng(1), Norm(features, 1e-5, centred)
    rows = np.rint(rng.normal(0, 2, (9, features)) * 2**16).astype(np.int64)
    gamma, beta = GAIN.from_float(rng.normal(1, 0.3, (2, features))), Q8_16.from_float(rng.normal(0, 1, (2, features)))
    side = rng.integers(0, 2, 9)
    words = operation(rows, gamma, beta if biased else None, side, norm, result_shift=shift)
    found = SPEC.run(words, 1000)["o"]
    x = torch.from_numpy(rows / 2**16)
    normed = (functional.layer_norm if centred else functional.rms_norm)(x, (features,), eps=1e-5).numpy()
    exact = normed * GAIN.to_float(gamma)[side] + biased * Q8_16.to_float(beta)[side]
    value = found["value"].reshape(9, -1)
    assert np.abs(value[:, :features] * 2.0 ** (shift - 16) - exact).max() < (4 + 2**shift) * 2**-16
    assert not value[:, features:].any()
    width = -(-features // SPEC.lanes)
    assert found["last"][:, 0].tolist() == [*[0] * (width - 1), 1] * 9
    assert (found["side"].reshape(9, -1) == side[:, None]).all()
    assert (found["tag"].reshape(9, -1) == np.arange(9)[:, None] % 8).all()


def test_all_that_golden_counts_is_clipped():
    norm = Norm(64, 0.0, centred=False)
    rows, gamma = np.zeros((2, 64), np.int64), np.full((2, 64), GAIN.maximum)
    rows[0, 5], rows[1, ::2] = 1 << 26 - 1, 1 << 20
    gamma[:, 0] *= -1
    beta = np.full((2, 64), Q8_16.maximum)
    words = operation(rows, gamma, beta, 0, norm, fraction=4)
    found, counted = SPEC.run(words, 1000)["o"], Narrower()
    expected = norm.run(rows, gamma[0], beta[0], Format(14, 4), counted)
    assert (found["value"].reshape(2, -1) == expected).all()
    assert found["clipped_scaled"].sum() + found["clipped"].sum() == counted.saturations > 0


def test_operations_follow_each_other_and_lack_nothing():
    rng, parts = np.random.default_rng(2), []
    for features in (5, 64):
        rows, gamma = rng.integers(-(1 << 20), 1 << 20, (3, features)), rng.integers(-999, 999, (2, features))
        parts.append(operation(rows, gamma, None, 1, Norm(features, 0.0)))
    alone = [SPEC.run(part, 1000)["o"]["value"] for part in parts]
    both = joined(parts)
    assert (SPEC.run(both, 1000)["o"]["value"] == np.concatenate(alone)).all()
    assert (SPEC.run(both, 2)["o"]["value"] == alone[0][:2]).all()
    less = both | {"parameters": {name: column[:-1] for name, column in both["parameters"].items()}}
    assert (SPEC.run(less, 1000)["o"]["value"] == alone[0]).all()
    # an incomplete row gives no output
    less = both | {"i": {name: column[:-1] for name, column in both["i"].items()}}
    assert len(SPEC.run(less, 1000)["o"]["value"]) == len(alone[0]) + 2 * 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lanes": 2}, "lanes = 2 is not 4, 8 or 16"),
        ({"features": 4097}, "features = 4097 is not in 8"),
        ({"features": 7}, "features = 7 is not in 8"),
        ({"tag": 33}, "tag = 33"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        LayerNormSpec(**settings)
