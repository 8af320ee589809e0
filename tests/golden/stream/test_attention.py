"""Integer attention compared with PyTorch in float64."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.attention import Q6_12, Attention, causal, rotated, rotations


def tokens(count, width, seed=1):
    rng = np.random.default_rng(seed)
    queries = Q8_16.from_float(rng.normal(0, 2, (3, count, width)))
    keys, values = (Q6_12.from_float(rng.normal(0, 2, (3, count, width))) for _ in range(2))
    return queries, keys, values


def attended(queries, keys, values, width, seen=None, counted=None):
    counted, head = counted or Narrower(), Attention(width)
    return head.context(head.exponents(queries, keys, counted), values, counted, seen)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("count", "width"), [(1, 32), (2, 32), (50, 32), (512, 32), (50, 64), (50, 5)])
def test_contexts_are_a_few_last_places_off(count, width, masked):
    queries, keys, values = tokens(count, width)
    seen = causal(count, count) if masked else None
    counted = Narrower()
    found = attended(queries, keys, values, width, seen, counted)
    exact = functional.scaled_dot_product_attention(
        *(torch.from_numpy(one) for one in (Q8_16.to_float(queries), Q6_12.to_float(keys), Q6_12.to_float(values))),
        is_causal=masked,
    ).numpy()
    error = found - exact * 2**16
    assert np.sqrt((error**2).mean()) < 1.5
    assert np.abs(error).max() < 12
    assert not counted.saturations


def test_one_token_sees_itself():
    queries, keys, values = tokens(1, 32)
    # its weight is the maximal mantissa, 2**-17 below 1
    error = np.abs(attended(queries, keys, values, 32) - (values << 4))
    assert (error <= 1 + np.abs(values << 4) / 2**17).all()


def test_what_is_not_seen_changes_nothing():
    queries, keys, values = tokens(9, 32)
    seen = causal(9, 9)
    before = attended(queries, keys, values, 32, seen)
    keys[:, 5:], values[:, 5:] = 77, Q6_12.maximum
    after = attended(queries, keys, values, 32, seen)
    assert (before[:, :5] == after[:, :5]).all()
    assert (before[:, 5:] != after[:, 5:]).any()


def test_scores_beyond_their_format_saturate_and_are_counted():
    counted = Narrower()
    queries, keys = np.full((1, 64), Q8_16.maximum), np.full((2, 64), Q6_12.maximum)
    exponents = Attention(64).exponents(queries, keys, counted)
    assert (exponents == Q8_16.maximum).all()
    assert counted.saturations == 4


def test_what_is_not_seen_is_not_counted():
    counted = Narrower()
    queries, keys = np.full((2, 64), Q8_16.maximum), np.full((2, 64), Q6_12.maximum)
    Attention(64).exponents(queries, keys, counted, causal(2, 2))
    assert counted.saturations == 6


def test_a_factor_has_17_bits_where_it_is_rounded_up_to_18():
    scale = (1 - 2.0**-19) / np.log2(np.e)
    assert Attention(4, scale).factor == (1 << 16, 16)


def test_the_last_queries_of_a_cache_see_all_keys_before():
    assert causal(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]


def test_turned_pairs_are_complex_products():
    rows = tokens(9, 8)[0]
    positions = np.arange(9) + 40
    found = rotated(rows, rotations(positions, 8), Q8_16, Narrower())
    pairs = Q8_16.to_float(rows[..., :4]) + 1j * Q8_16.to_float(rows[..., 4:])
    turned = pairs * np.exp(1j * positions[:, None] * 10_000.0 ** (-np.arange(4) / 4))
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    assert np.abs(found - expected * 2**16).max() < 6


def test_scores_of_turned_rows_depend_on_the_distance_alone():
    rows = tokens(1, 8)[0].repeat(2, axis=1)

    def score(first, second):
        queries, keys = (
            rotated(rows, rotations(np.array([one, one]), 8), Q8_16, Narrower()) for one in (first, second)
        )
        return (Q8_16.to_float(queries[0, 0]) * Q8_16.to_float(keys[0, 0])).sum()

    assert score(3, 1) == pytest.approx(score(103, 101), abs=1e-2)


def test_what_is_refused():
    with pytest.raises(UserError, match="not 0"):
        Attention(0)
    with pytest.raises(UserError, match="7 is odd"):
        rotations(np.arange(3), 7)
